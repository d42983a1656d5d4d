-- SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
-- kvsteer-load's workload `chat`: wrk2 -t2 -c64 -R30 -d60s --latency -s chat.lua http://GATEWAY -- MODEL [SEED [RUN]]
package.path = debug.getinfo(1, "S").source:match("^@(.-)[^/]*$") .. "?.lua;" .. package.path
require("prompts").install("chat")
