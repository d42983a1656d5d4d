-- SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
-- The prompts of kvsteer-load's workloads for wrk2 and wrk (LuaJIT 2.0 and newer).
--
-- The first thread sends, in order, the very bytes that `kvsteer-load --seed SEED --stream 0` sends, but for
-- the first one, which wrk takes for a look, and for max_tokens: it is 1, so that the latency of an answer is the
-- time to its first token. Other threads share the prefixes and draw from streams of their own. A conversation of `chat` can't repeat the engine's answers, since
-- wrk does not say which answer belongs to which request: its answers are made up, as long as real ones.
local ffi = require("ffi")
local bit = require("bit")
local band, bor, bxor, lshift, rshift, tobit = bit.band, bit.bor, bit.bxor, bit.lshift, bit.rshift, bit.tobit

local TWO32 = 4294967296
local TWO32ULL = 4294967296ULL
local NAMES = { support = true, long8k = true, chat = true }

-- ---- 64-bit words: cdata for arithmetic, halves for bits (LuaJIT 2.0 has no 64-bit bit operations) ----

local function halves(z)
	return tobit(tonumber(z / TWO32ULL)), tobit(tonumber(z % TWO32ULL))
end

local function unsigned(x)
	return x < 0 and x + TWO32 or x
end

local function word(hi, lo)
	return ffi.new("uint64_t", unsigned(hi)) * TWO32ULL + ffi.new("uint64_t", unsigned(lo))
end

local function xor_shifted(z, divisor)
	local ah, al = halves(z)
	local bh, bl = halves(z / divisor)

	return word(bxor(ah, bh), bxor(al, bl))
end

-- The state after one step, and its output: splitmix64.
local function splitmix(x)
	local z

	x = x + 0x9e3779b97f4a7c15ULL
	z = xor_shifted(x, 1073741824ULL) * 0xbf58476d1ce4e5b9ULL
	z = xor_shifted(z, 134217728ULL) * 0x94d049bb133111ebULL
	return x, xor_shifted(z, 2147483648ULL)
end

local function mix(a, b)
	local _, z = splitmix(ffi.cast("uint64_t", a) * 0xd6e8feb86659fd93ULL + ffi.cast("uint64_t", b))

	return z
end

-- xoshiro256++ in halves: s[2i] low, s[2i + 1] high.
local function rng_new(seed, stream)
	local x, z = mix(seed, stream), nil
	local s = ffi.new("int32_t[8]")

	for i = 0, 3 do
		x, z = splitmix(x)
		s[2 * i + 1], s[2 * i] = halves(z)
	end
	return s
end

local function add(ah, al, bh, bl)
	local lo = unsigned(al) + unsigned(bl)

	return tobit(ah + bh + (lo >= TWO32 and 1 or 0)), tobit(lo)
end

local function rng_next(s)
	local h, l = add(s[1], s[0], s[7], s[6])
	local th, tl

	h, l = bor(lshift(h, 23), rshift(l, 9)), bor(lshift(l, 23), rshift(h, 9))
	h, l = add(h, l, s[1], s[0])
	th, tl = bor(lshift(s[3], 17), rshift(s[2], 15)), lshift(s[2], 17)
	s[4], s[5] = bxor(s[4], s[0]), bxor(s[5], s[1])
	s[6], s[7] = bxor(s[6], s[2]), bxor(s[7], s[3])
	s[2], s[3] = bxor(s[2], s[4]), bxor(s[3], s[5])
	s[0], s[1] = bxor(s[0], s[6]), bxor(s[1], s[7])
	s[4], s[5] = bxor(s[4], tl), bxor(s[5], th)
	-- left by 45: the halves change places, then left by 13
	s[6], s[7] = bor(lshift(s[7], 13), rshift(s[6], 19)), bor(lshift(s[6], 13), rshift(s[7], 19))
	return h, l
end

local function rng_unit(s)
	local h, l = rng_next(s)

	return (unsigned(h) * 2097152 + rshift(l, 11) + 0.5) / 9007199254740992
end

local function rng_lognormal(s, mean, sigma)
	local normal = math.sqrt(-2 * math.log(rng_unit(s))) * math.cos(2 * math.pi * rng_unit(s))
	local v = math.exp(math.log(mean) - sigma * sigma / 2 + sigma * normal)

	return v < 1 and 1 or math.floor(v + 0.5)
end

local function rng_geometric(s, mean, most)
	local n = 1 + math.floor(math.log(rng_unit(s)) / math.log(1 - 1 / mean))

	return n < most and n or most
end

-- ---- text: 4 bytes a token ----

local LETTERS = "abcdefghijklmnopqrstuvwxyz012345"

local function fill4(dst, at, bits)
	dst[at] = LETTERS:byte(band(bits, 31) + 1)
	dst[at + 1] = LETTERS:byte(band(rshift(bits, 5), 31) + 1)
	dst[at + 2] = LETTERS:byte(band(rshift(bits, 10), 31) + 1)
	dst[at + 3] = 32
end

local function text(tokens, key)
	local s = rng_new(key, 0x74657874ULL)
	local dst = ffi.new("uint8_t[?]", tokens * 4 + 16)

	for at = 0, tokens * 4 - 1, 16 do
		local h, l = rng_next(s)

		fill4(dst, at, l)
		fill4(dst, at + 4, rshift(l, 16))
		fill4(dst, at + 8, h)
		fill4(dst, at + 12, rshift(h, 16))
	end
	return ffi.string(dst, tokens * 4)
end

-- ---- workloads ----

local SHAPES = {
	support = { prefixes = 1000, prefix_tokens = 3008, zipf = 0.4, question = 50, output = 150, sigma = 0.5 },
	long8k = { prefixes = 400, prefix_tokens = 8000, zipf = 0.4, question = 50, output = 200, sigma = 0.5 },
	chat = { prefixes = 1, prefix_tokens = 256, zipf = 0, question = 120, output = 250, sigma = 0.5, turns = 5 },
}
local KEY_PREFIX, KEY_QUESTION, KEY_CONV, KEY_ANSWER = 0x707265ULL, 0x71756573ULL, 0x636f6e76ULL, 0x616e7377ULL
local OPEN = '{"model":"%s","ignore_eos":true,"max_tokens":1,"messages":[{"role":"system","content":"'
local NEXT_USER = '"},{"role":"user","content":"'
local NEXT_ASSISTANT = '"},{"role":"assistant","content":"'
local TAIL = '"}]}'
local CONVERSATIONS = 40 -- of a thread
local TURNS_MAX = 64

local Source = {}
Source.__index = Source

local function source_new(name, model, seed, run, thread)
	local shape = SHAPES[name]
	-- draws of a run's thread: the first of the first has kvsteer-load's
	local number = run * 4096 + thread
	local own = number == 0 and ffi.cast("uint64_t", seed) or mix(seed, 0x746872ULL * TWO32ULL + number)
	local self = setmetatable({
		shape = shape, seed = ffi.cast("uint64_t", seed), open = OPEN:format(model), number_base = number * TWO32ULL,
		prefix_rng = rng_new(own, 1), length_rng = rng_new(own, 2), conv_rng = rng_new(own, 3),
		prefixes = {}, cumulative = {}, n = 0, convs = {}, n_convs = 0,
	}, Source)
	local sum = 0

	for i = 1, shape.prefixes do
		sum = sum + i ^ -shape.zipf
		self.cumulative[i] = sum
	end
	for i = 1, shape.prefixes do
		self.cumulative[i] = self.cumulative[i] / sum
	end
	self.cumulative[shape.prefixes] = 1
	return self
end

function Source:prefix()
	local u, lo, hi = rng_unit(self.prefix_rng), 1, self.shape.prefixes

	while lo < hi do
		local mid = math.floor((lo + hi) / 2)

		if self.cumulative[mid] < u then
			lo = mid + 1
		else
			hi = mid
		end
	end
	if not self.prefixes[lo] then
		self.prefixes[lo] = text(self.shape.prefix_tokens, mix(self.seed, KEY_PREFIX * TWO32ULL + (lo - 1)))
	end
	return self.prefixes[lo]
end

function Source:length(mean)
	return rng_lognormal(self.length_rng, mean, self.shape.sigma)
end

-- Numbers of prompts and conversations: those of other threads and runs lie far apart.
function Source:number(n)
	return self.number_base + n
end

function Source:single()
	local prefix = self:prefix()
	local question = text(self:length(self.shape.question), mix(mix(self.seed, KEY_QUESTION), self:number(self.n)))

	self:length(self.shape.output) -- drawn there too
	self.n = self.n + 1
	return self.open .. prefix .. NEXT_USER .. question .. TAIL
end

function Source:turn()
	local at = 1 + math.floor(rng_unit(self.conv_rng) * CONVERSATIONS)
	local c = self.convs[at]

	if not c or c.turn == c.turns then
		c = { id = self:number(self.n_convs), turn = 0, turns = rng_geometric(self.conv_rng, self.shape.turns, TURNS_MAX),
		      text = self.open .. self:prefix() }
		self.n_convs = self.n_convs + 1
		self.convs[at] = c
	elseif c.turn > 0 then
		c.text = c.text .. NEXT_ASSISTANT .. text(self:length(self.shape.output), mix(mix(self.seed, KEY_ANSWER), c.id * 256 + c.turn))
	end
	c.text = c.text .. NEXT_USER .. text(self:length(self.shape.question), mix(mix(self.seed, KEY_CONV), c.id * 256 + c.turn))
	c.turn = c.turn + 1
	return c.text .. TAIL
end

-- ---- what wrk calls ----

local function install(name)
	local threads = 0

	assert(NAMES[name], "no such workload: " .. name)

	function setup(thread)
		thread:set("thread_number", threads)
		threads = threads + 1
	end

	-- wrk URL -- MODEL [SEED [RUN]]: another RUN asks other questions about the same prefixes
	function init(args)
		local source = source_new(name, args[1] or "llama-3.1-70b", tonumber(args[2] or 1), tonumber(args[3] or 0), thread_number)
		local make = source.shape.turns and source.turn or source.single
		local headers = { ["Content-Type"] = "application/json", ["Host"] = wrk.headers["Host"] }

		function request()
			return wrk.format("POST", "/v1/chat/completions", headers, make(source))
		end
	end

	function done(summary, latency, requests)
		local e = summary.errors

		io.write(string.format(
			'\nkvsteer {"requests":%d,"duration_s":%.6f,"bytes":%d,"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,' ..
			'"timeout":%d},"latency_ms":{"p50":%.3f,"p90":%.3f,"p99":%.3f,"mean":%.3f,"max":%.3f}}\n',
			summary.requests, summary.duration / 1e6, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout,
			latency:percentile(50) / 1e3, latency:percentile(90) / 1e3, latency:percentile(99) / 1e3, latency.mean / 1e3,
			latency.max / 1e3))
	end
end

return { install = install }
