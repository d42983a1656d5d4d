/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Request heads and bodies: tables of cases, each run whole, at every split and
 * byte by byte. */
#include "conn.h"

struct row {
	const char *name;
	const char *in;
	size_t len;
	const char *want;
};
#define ROW(name_, in_, want_) { name_, in_, sizeof(in_) - 1, want_ }
#define H "Host: a\r\n"
#define G "GET / HTTP/1.1\r\n" H
#define P "POST / HTTP/1.1\r\n" H
#define OKG "GET / a none <>|"

static const struct row start_line[] = {
	ROW("baseline", G "\r\n", OKG),
	ROW("leading-crlf-1", "\r\n" G "\r\n", OKG),
	ROW("leading-crlf-2", "\r\n\r\n" G "\r\n", "R400"),
	ROW("leading-lf", "\n" G "\r\n", "R400"),
	ROW("leading-cr", "\r" G "\r\n", "R400"),
	ROW("bare-lf-line", "GET / HTTP/1.1\n" H "\r\n", "R400"),
	ROW("bare-cr-line", "GET / HTTP/1.1\r" H "\r\n", "R400"),
	ROW("double-sp", "GET  / HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("double-sp-2", "GET /  HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("tab-sep", "GET\t/ HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("tab-sep-2", "GET /\tHTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("trailing-sp-line", "GET / HTTP/1.1 \r\n" H "\r\n", "R400"),
	ROW("leading-sp-line", " GET / HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("lf-inside-line", "GET /\nHTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("no-target", "GET HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("http09", "GET /\r\n", "R400"),
	ROW("http09-version", "GET / HTTP/0.9\r\n\r\n", "R505"),
	ROW("ver-http12", "GET / HTTP/1.2\r\n" H "\r\n", OKG),
	ROW("ver-http19", "GET / HTTP/1.9\r\n" H "\r\n", OKG),
	ROW("ver-20", "GET / HTTP/2.0\r\n" H "\r\n", "R505"),
	ROW("ver-11-digits", "GET / HTTP/1.10\r\n" H "\r\n", "R400"),
	ROW("ver-lower", "GET / http/1.1\r\n" H "\r\n", "R400"),
	ROW("ver-missing-minor", "GET / HTTP/1\r\n" H "\r\n", "R400"),
	ROW("ver-other", "GET / ICE/1.0\r\n" H "\r\n", "R400"),
	ROW("h2-preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "R505"),
	ROW("method-lower", "get / HTTP/1.1\r\n" H "\r\n", "R405"),
	ROW("method-unknown", "BREW / HTTP/1.1\r\n" H "\r\n", "R405"),
	ROW("method-trace", "TRACE / HTTP/1.1\r\n" H "\r\n", "R405"),
	ROW("method-badchar", "G=\":<>(e) / HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("method-long", "ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("all-methods", "HEAD / HTTP/1.1\r\n" H "\r\nPUT / HTTP/1.1\r\n" H "\r\nDELETE / HTTP/1.1\r\n" H
	    "\r\nPATCH / HTTP/1.1\r\n" H "\r\n", "HEAD / a none <>|PUT / a none <>|DELETE / a none <>|PATCH / a none <>|"),
	ROW("target-nul", "GET /\0 HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("target-ctl", "GET /\x1f HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("target-del", "GET /\x7f HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("target-0x80", "GET /\x80 HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("target-query-0xff", "GET /?\xff HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("target-fragment", "GET /a#b HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("target-query-fragment", "GET /a?b#c HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("target-space", "GET /a b HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("target-backslash", "GET /a\\..\\b HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("query", "GET /v1/models?a=/../%2e&b={x} HTTP/1.1\r\n" H "\r\n", "GET /v1/models?a=/../%2e&b={x} a none <>|"),
	ROW("query-empty", "GET /x? HTTP/1.1\r\n" H "\r\n", "GET /x? a none <>|"),
	ROW("dotdot", "GET /v1/../admin HTTP/1.1\r\n" H "\r\n", "GET /admin a none <>|"),
	ROW("dotdot-encoded", "GET /v1/%2e%2E/admin HTTP/1.1\r\n" H "\r\n", "GET /admin a none <>|"),
	ROW("dotdot-above-root", "GET /../../x HTTP/1.1\r\n" H "\r\n", "GET /x a none <>|"),
	ROW("dotdot-end", "GET /a/b/.. HTTP/1.1\r\n" H "\r\n", "GET /a/ a none <>|"),
	ROW("dot-end", "GET /a/. HTTP/1.1\r\n" H "\r\n", "GET /a/ a none <>|"),
	ROW("dots-all", "GET /.. HTTP/1.1\r\n" H "\r\n", "GET / a none <>|"),
	ROW("dots-many", "GET /a/./b/../../c/... HTTP/1.1\r\n" H "\r\n", "GET /c/... a none <>|"),
	ROW("double-slash", "GET //a//../b HTTP/1.1\r\n" H "\r\n", "GET //a/b a none <>|"),
	ROW("hidden-dots", "GET /v1/..%2fadmin HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("hidden-dots-2", "GET /v1%2f../admin HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("hidden-dots-3", "GET /v1/.%5Cadmin HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("escape-kept", "GET /v1/models/org%2fname%20x HTTP/1.1\r\n" H "\r\n", "GET /v1/models/org%2Fname%20x a none <>|"),
	ROW("escape-unreserved", "GET /%76%31/x%7e HTTP/1.1\r\n" H "\r\n", "GET /v1/x~ a none <>|"),
	ROW("escape-bad", "GET /%zz HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("escape-cut", "GET /%2 HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("escape-nul", "GET /%00 HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("escape-lf", "GET /a%0ab HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("asterisk-get", "GET * HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("asterisk-options", "OPTIONS * HTTP/1.1\r\n" H "\r\n", "OPTIONS * a none <>|"),
	ROW("asterisk-more", "OPTIONS *x HTTP/1.1\r\n" H "\r\n", "R400"),
	ROW("absolute-form", "GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x a none <>|"),
	ROW("absolute-wins", "GET hTTp://b:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x?y b:81 none <>|"),
	ROW("absolute-no-path", "GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", "GET / b none <>|"),
	ROW("absolute-no-path-query", "GET http://b?q HTTP/1.1\r\nHost: a\r\n\r\n", "GET /?q b none <>|"),
	ROW("absolute-options", "OPTIONS https://b HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * b none <>|"),
	ROW("absolute-dots", "GET http://b/v1/../x HTTP/1.1\r\nHost: a\r\n\r\n", "GET /x b none <>|"),
	ROW("absolute-bad-host", "GET http://b/x HTTP/1.1\r\nHost: a/b\r\n\r\n", "R400"),
	ROW("absolute-no-host", "GET http://b/x HTTP/1.1\r\n\r\n", "R400"),
	ROW("absolute-empty", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", "R400"),
	ROW("other-scheme", "GET ftp://a/x HTTP/1.1\r\nHost: a\r\n\r\n", "R400"),
	ROW("authority-form", "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "R400"),
	ROW("relative", "GET a/b HTTP/1.1\r\nHost: a\r\n\r\n", "R400"),
	ROW("connect", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", "R405"),
	ROW("userinfo-target", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", "R400"),
	ROW("userinfo-host", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "R400"),
	ROW("no-host", "GET / HTTP/1.1\r\n\r\n", "R400"),
	ROW("two-hosts-diff", G "Host: b\r\n\r\n", "R400"),
	ROW("two-hosts-same", G H "\r\n", "R400"),
	ROW("host-case", "GET / HTTP/1.1\r\nhOST:\ta \r\n\r\n", OKG),
	ROW("host-comma", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "R400"),
	ROW("host-comma-tight", "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", "R400"),
	ROW("host-path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "R400"),
	ROW("host-space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "R400"),
	ROW("host-nul", "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", "R400"),
	ROW("host-0xff", "GET / HTTP/1.1\r\nHost: a\xff\r\n\r\n", "R400"),
	ROW("host-badport", "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", "R400"),
	ROW("host-port-0", "GET / HTTP/1.1\r\nHost: a:0\r\n\r\n", "R400"),
	ROW("host-port-x", "GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n", "R400"),
	ROW("host-port-empty", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", "R400"),
	ROW("host-port", "GET / HTTP/1.1\r\nHost: a:65535\r\n\r\n", "GET / a:65535 none <>|"),
	ROW("host-v6", "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n", "GET / [2001:db8::1]:80 none <>|"),
	ROW("host-v6-bad", "GET / HTTP/1.1\r\nHost: [2001:db8::1\r\n\r\n", "R400"),
	ROW("host-v6-bad-2", "GET / HTTP/1.1\r\nHost: [x]\r\n\r\n", "R400"),
	ROW("host-v6-tail", "GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", "R400"),
	ROW("host-empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "R400"),
	ROW("host-spaces", "GET / HTTP/1.1\r\nHost:   \r\n\r\n", "R400"),
	ROW("http10-no-host", "GET / HTTP/1.0\r\n\r\n", "GET /  none close <>|"),
	ROW("http10-host", "GET / HTTP/1.0\r\n" H "\r\n", "GET / a none close <>|"),
	ROW("http10-bad-host", "GET / HTTP/1.0\r\nHost: a b\r\n\r\n", "R400"),
	ROW("incomplete", "GET / HTTP/1.1\r\nHost: a\r\n", "MORE"),
	ROW("incomplete-crlf", "\r\n", ""),
	ROW("incomplete-1", "G", "MORE"),
	ROW("tls-hello", "\x16\x03\x01\x02", "R400"),
};

static const struct row fields[] = {
	ROW("no-colon", G "Foo\r\n\r\n", "R400"),
	ROW("empty-name", G ": x\r\n\r\n", "R400"),
	ROW("colon-alone", G ":\r\n\r\n", "R400"),
	ROW("sp-before-colon", G "Foo : x\r\n\r\n", "R400"),
	ROW("tab-before-colon", G "Foo\t: x\r\n\r\n", "R400"),
	ROW("ws-first-header", "GET / HTTP/1.1\r\n Foo: x\r\n" H "\r\n", "R400"),
	ROW("ws-only-line", G " \r\n\r\n", "R400"),
	ROW("obs-fold", G "Foo: a\r\n b\r\n\r\n", "R400"),
	ROW("obs-fold-tab", G "Foo: a\r\n\tb\r\n\r\n", "R400"),
	ROW("obs-fold-te", P "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "R400"),
	ROW("obs-fold-end", G "Foo: a\r\n \r\n\r\n", "R400"),
	ROW("name-0x85", G "Fo\x85o: x\r\n\r\n", "R400"),
	ROW("name-sp", G "Fo o: x\r\n\r\n", "R400"),
	ROW("name-paren", G "Fo(o): x\r\n\r\n", "R400"),
	ROW("name-quote", G "\"Foo\": x\r\n\r\n", "R400"),
	ROW("name-tchars", G "!#$%&'*+-.^_`|~9: x\r\n\r\n", OKG),
	ROW("value-nul", G "X: v\0\r\n\r\n", "R400"),
	ROW("value-bare-cr", G "X: v\rX: y\r\n\r\n", "R400"),
	ROW("value-bare-lf", G "X: v\nX: y\r\n\r\n", "R400"),
	ROW("value-tab", G "X: a\tb\r\n\r\n", OKG),
	ROW("value-obs-text", G "X: \x80\xff\r\n\r\n", OKG),
	ROW("value-empty", G "X:\r\nY: \t \r\n\r\n", OKG),
	ROW("cr-only-header-end", "GET / HTTP/1.1\r\nHost: a\r\rX", "R400"),
	ROW("cr-then-z", G "\rZ", "R400"),
	ROW("name-continued", P "Transfer-\r\nEncoding: chunked\r\n\r\n0\r\n\r\n", "R400"),
	ROW("te-trailers", G "TE: trailers\r\n\r\n", OKG),
	ROW("upgrade-h2c", G "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQ\r\n\r\n", OKG),
	ROW("upgrade-websocket", G "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n" G "\r\n", OKG OKG),
	ROW("upgrade-post", P "Upgrade: foo\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nhi", "POST / a length:2 <hi>|"),
	ROW("expect-100", P "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", "POST / a length:5 expect <hello>|"),
	ROW("expect-case", P "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nh", "POST / a length:1 expect <h>|"),
	ROW("expect-no-body", P "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n", "POST / a length:0 <>|"),
	ROW("expect-unknown", P "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello", "R417"),
	ROW("expect-10", "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", "POST /  length:1 close <x>|"),
	ROW("dup-authorization", G "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", "R400"),
	ROW("dup-content-type", P "Content-Type: a/b\r\nContent-Type: a/c\r\nContent-Length: 0\r\n\r\n", "R400"),
	ROW("dup-prefix-id", G "X-Amzn-SageMaker-Prefix-Aware-Id: a\r\nX-Amzn-SageMaker-Prefix-Aware-Id: a\r\n\r\n", "R400"),
	ROW("dup-accept", G "Accept: a/b\r\nAccept: a/c\r\n\r\n", OKG),
	ROW("conn-close", G "Connection: close\r\n\r\n" G "\r\n", "GET / a none close <>|IGNORED"),
	ROW("conn-close-list", G "Connection: foo , CLOSE,\r\n\r\n", "GET / a none close <>|"),
	ROW("conn-close-second", G "Connection: keep-alive\r\nConnection: close\r\n\r\n", "GET / a none close <>|"),
	ROW("conn-bad", G "Connection: a b\r\n\r\n", "R400"),
	ROW("http10-keep-alive", "GET / HTTP/1.0\r\n" H "Connection: Keep-Alive\r\n\r\nGET / HTTP/1.0\r\n\r\n", "GET / a none <>|GET /  none close <>|"),
};

#define CL(v, want) ROW("cl " v, P "Content-Length:" v "\r\n\r\nhello", want)
#define TE(v, want) ROW("te " v, P "Transfer-Encoding:" v "\r\n\r\n0\r\n\r\n", want)
#define CHUNKED "POST / a chunked <>|"

static const struct row framing[] = {
	ROW("cl-dup-diff", P "Content-Length: 5\r\nContent-Length: 10\r\n\r\nhello", "R400"),
	ROW("cl-dup-same", P "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "R400"),
	CL(" 5", "POST / a length:5 <hello>|"), CL("5", "POST / a length:5 <hello>|"),
	CL("  5\t", "POST / a length:5 <hello>|"), CL(" 5, 5", "R400"), CL(" 5, 6", "R400"), CL(" 5,5,5", "R400"),
	CL(" +5", "R400"), CL(" -1", "R400"), CL(" -0", "R400"), CL(" 0x5", "R400"), CL(" 0o5", "R400"),
	CL(" 1_0", "R400"), CL(" 1 0", "R400"), CL("", "R400"), CL("  ", "R400"), CL(" 5.0", "R400"), CL(" 5;", "R400"),
	CL(" 9223372036854775808", "R400"), CL(" 18446744073709551616", "R400"),
	CL(" 18446744073709551621", "R400"), CL(" 99999999999999999999999", "R400"), CL(" 005", "R400"),
	CL(" 00", "R400"), CL(" \"5\"", "R400"), CL(" 5\x80", "R400"), CL(" \xb2", "R400"),
	CL(" 9223372036854775807", "R413"), CL(" 67108865", "R413"),
	ROW("cl-max-body", P "Content-Length: 67108864\r\n\r\n", "POST / a length:67108864 <>CUT"),
	ROW("cl-get-body", "GET / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello" G "\r\n", "GET / a length:5 <hello>|" OKG),
	ROW("cl-head-body", "HEAD / HTTP/1.1\r\n" H "Content-Length: 5\r\n\r\nhello" G "\r\n", "HEAD / a length:5 <hello>|" OKG),
	ROW("cl-options-body", "OPTIONS / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi" G "\r\n", "OPTIONS / a length:2 <hi>|" OKG),
	ROW("cl-delete-body", "DELETE / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi" G "\r\n", "DELETE / a length:2 <hi>|" OKG),
	ROW("cl-undersend", P "Content-Length: 10\r\n\r\nhello", "POST / a length:10 <hello>CUT"),
	ROW("cl0-poison", P "Content-Length: 0\r\n\r\n" G "\r\n", "POST / a length:0 <>|" OKG),
	ROW("cl-te", P "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "R400"),
	ROW("te-cl", P "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "R400"),
	ROW("te-dup", P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "R400"),
	ROW("te-dup-gzip", P "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "R400"),
	TE(" chunked", CHUNKED), TE("chunked", CHUNKED), TE(" cHuNkEd", CHUNKED), TE(" chunked ", CHUNKED),
	TE("\t chunked\t", CHUNKED), TE(" xchunked", "R400"), TE(" chunk", "R400"), TE(" cow", "R400"),
	TE(" gzip, chunked", "R501"), TE(" gzip,chunked", "R501"), TE(" chunked, gzip", "R400"),
	TE(" chunked, chunked", "R400"), TE(" chunked,", "R400"), TE(" ,chunked", "R400"), TE("", "R400"), TE("  ", "R400"),
	TE("\x0b" "chunked", "R400"), TE("\x0c" "chunked", "R400"), TE("\0chunked", "R400"), TE(" \xa0" "chunked", "R400"),
	TE(" chunked\x85", "R400"), TE(" \xff" "chunked", "R400"), TE(" \"chunked\"", "R400"), TE(" 'chunked'", "R400"),
	TE(" chunked;q=1", "R400"), TE(" identity", "R400"), TE(" cow chunked", "R400"), TE(" chunked\x0b", "R400"),
	ROW("te-http10", "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "R400"),
	ROW("two-gets", G "\r\n" G "\r\n", OKG OKG),
	ROW("post+get", P "Content-Length: 5\r\n\r\nhello" G "\r\n", "POST / a length:5 <hello>|" OKG),
};

#define CHUNKS(name_, body_, want_) ROW(name_, P "Transfer-Encoding: chunked\r\n\r\n" body_, "POST / a chunked <" want_)
#define X4 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct row chunked[] = {
	CHUNKS("chunk-ok", "5\r\nhello\r\n0\r\n\r\n", "hello>|"),
	CHUNKS("chunk-multi", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "hello>|"),
	CHUNKS("chunk-hex", "a\r\n0123456789\r\nB\r\n0123456789a\r\n00\r\n\r\n", "01234567890123456789a>|"),
	CHUNKS("chunk-empty", "0\r\n\r\n" G "\r\n", ">|" OKG),
	CHUNKS("chunk-leading-zeros", "00000005\r\nhello\r\n0\r\n\r\n", "hello>|"),
	CHUNKS("chunk-crlf-data", "4\r\n\r\n0\r\r\n0\r\n\r\n", "\r\n0\r>|"),
	CHUNKS("chunk-0x", "0x5\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-plus", "+5\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-minus", "-5\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-underscore", "5_0\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-lead-sp", " 5\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-trail-sp", "5 \r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-trail-tab", "5\t\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-empty-size", "\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-ext-no-size", ";a=b\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-17-digits", "00000000000000005\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-overflow", "10000000000000005\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-max", "FFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-2^63", "8000000000000000\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-huge", "7fffffffffffffff\r\nhello", ">R413"),
	CHUNKS("chunk-over-limit", "4000001\r\nhello", ">R413"),
	CHUNKS("chunk-over-limit-second", "5\r\nhello\r\n3fffffc\r\n", "hello>R413"),
	CHUNKS("chunk-lf", "5\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-data-lf", "5\r\nhello\n0\r\n\r\n", "hello>R400"),
	CHUNKS("chunk-cr", "5\rhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-missing-crlf", "5\r\nhelloX0\r\n\r\n", "hello>R400"),
	CHUNKS("chunk-spill", "5\r\nhello6\r\n0\r\n\r\n", "hello>R400"),
	CHUNKS("chunk-data-cr", "5\r\nhello\rX", "hello>R400"),
	CHUNKS("term-extra", "0\r\nX:", ">CUT"),
	CHUNKS("term-garbage", "0\r\nXX\r\n\r\n", ">R400"),
	CHUNKS("term-lf", "0\r\n\n", ">R400"),
	CHUNKS("term-cr", "0\r\n\rX", ">R400"),
	CHUNKS("chunk-ext", "5;a=b\r\nhello\r\n0;c=\"d e\"\r\n\r\n", "hello>|"),
	CHUNKS("chunk-ext-bare", "5;\r\nhello\r\n0\r\n\r\n", "hello>|"),
	CHUNKS("chunk-ext-lf", "5;a\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-ext-cr", "5;a\rb\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("chunk-ext-ctl", "5;a\x01\r\nhello\r\n0\r\n\r\n", ">R400"),
	CHUNKS("trailers-ok", "5\r\nhello\r\n0\r\nA: b\r\nC-D:\r\n\r\n" G "\r\n", "hello>|" OKG),
	CHUNKS("trailer-framing", "0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\nHost: evil\r\n\r\n" G "\r\n", ">|" OKG),
	CHUNKS("trailer-lf", "0\r\nA: b\n\r\n", ">R400"),
	CHUNKS("trailer-fold", "0\r\nA: b\r\n c\r\n\r\n", ">R400"),
	CHUNKS("trailer-empty-name", "0\r\n: b\r\n\r\n", ">R400"),
	CHUNKS("trailer-sp-name", "0\r\nA : b\r\n\r\n", ">R400"),
	CHUNKS("trailer-nul", "0\r\nA: \0\r\n\r\n", ">R400"),
	CHUNKS("bad-then-pipelined", "Z\r\n" G "\r\n", ">R400"),
	CHUNKS("cut-size", "5", ">CUT"),
	CHUNKS("cut-data", "5\r\nhel", "hel>CUT"),
	CHUNKS("cut-last", "0\r\n", ">CUT"),
	CHUNKS("cut-final-lf", "0\r\n\r", ">CUT"),
};

static void run_rows(const struct row *rows, size_t n)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;

	for (size_t i = 0; i < n; i++)
		conn_check(rows[i].name, &limits, rows[i].in, rows[i].len, rows[i].want);
}
#define RUN(rows) run_rows(rows, sizeof(rows) / sizeof(rows[0]))

static void test_start_line(void **state)
{
	RUN(start_line);
}
static void test_fields(void **state)
{
	RUN(fields);
}
static void test_framing_fields(void **state)
{
	RUN(framing);
}
static void test_chunked(void **state)
{
	RUN(chunked);
}

/* Every byte in a name and in a value: by table of the RFC, not by ours. */
static void test_every_byte(void **state)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;

	for (int c = 0; c < 256; c++) {
		char in[64] = G "X-x: y\r\n\r\n";
		size_t n = strlen(in), name = strlen(G) + 1, value = strlen(G) + 5;
		bool tchar = c && (strchr("!#$%&'*+-.^_`|~", c) || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
				   (c >= 'a' && c <= 'z'));

		in[name] = (char)c;
		conn_check("byte in a name", &limits, in, n, tchar || c == ':' ? OKG : "R400");
		in[name] = '-';
		in[value] = (char)c;
		conn_check("byte in a value", &limits, in, n, c == '\t' || (c >= 0x20 && c != 0x7f) ? OKG : "R400");
	}
}

/* Control and high bytes at ten places around the field that smugglers love:
 * nothing but SP and HT as optional whitespace may leave it chunked, and none may
 * be taken for a request without a body. */
static void test_smuggler_matrix(void **state)
{
	static const char line[] = "Transfer-Encoding: chunked";
	static const size_t at[] = { 0, 1, 8, 9, 17, 18, 19, 22, 26, 27 };
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	unsigned int requests = 0;

	for (int c = 0; c < 256; c++) {
		if (c > 0x20 && c < 0x7f)
			continue;
		for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
			char in[128];
			size_t n = 0, head = at[i] < 26 ? at[i] : 26;
			bool ows = (c == ' ' || c == '\t') && at[i] >= 18 && at[i] != 22;
			char *got;

			n += (size_t)sprintf(in + n, P);
			memcpy(in + n, line, head);
			n += head;
			if (at[i] == 27) { /* between CR and LF */
				in[n++] = '\r';
				in[n++] = (char)c;
				in[n++] = '\n';
			} else {
				in[n++] = (char)c;
				memcpy(in + n, line + head, sizeof(line) - 1 - head);
				n += sizeof(line) - 1 - head;
				in[n++] = '\r';
				in[n++] = '\n';
			}
			n += (size_t)sprintf(in + n, "\r\n0\r\n\r\nGET /x HTTP/1.1\r\n" H "\r\n");
			if (at[i] == 27)
				ows = false;
			got = conn_run(&limits, in, n, 0, n);
			if (strcmp(got, ows ? "POST / a chunked <>|GET /x a none <>|" : "R400"))
				fail_msg("byte %02x at %zu: \"%s\"", c, at[i], got);
			free(got);
			got = conn_run_bytes(&limits, in, n);
			assert_string_equal(got, ows ? "POST / a chunked <>|GET /x a none <>|" : "R400");
			free(got);
			requests++;
		}
	}
	assert_true(requests >= 1600);
}

/* Pipelines of mixed requests, cut at two random places. */
static void test_random_splits(void **state)
{
	static const char in[] = P "Content-Length: 5\r\n\r\nhello\r\n" G "\r\n" P
				   "Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n1\r\n!\r\n0\r\nT: v\r\n\r\n"
				   "GET http://b/../c?d HTTP/1.1\r\n" H "Connection: close\r\n\r\nGET /";
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	unsigned int seed = 1;

	for (int i = 0; i < 3000; i++) {
		size_t n = sizeof(in) - 1, a = (size_t)rand_r(&seed) % n, b = (size_t)rand_r(&seed) % n;
		char *got = conn_run(&limits, in, n, a < b ? a : b, a < b ? b : a);

		assert_string_equal(got, "POST / a length:5 <hello>|" OKG "POST / a chunked <hello!>|"
					 "GET /c?d b none close <>|IGNORED");
		free(got);
	}
}

static void test_field_ids(void **state)
{
	static const struct {
		const char *name;
		enum http_field_id id;
	} rows[] = {
		{ "te", HTTP_F_TE }, { "HOST", HTTP_F_HOST }, { "Content-Length", HTTP_F_CONTENT_LENGTH },
		{ "X-Gateway-Model-Name", HTTP_F_X_GATEWAY }, { "x-gateway-", HTTP_F_OTHER },
		{ "x-kvsteer-priority", HTTP_F_X_KVSTEER_PRIORITY }, { "X-KVSteer-Backend", HTTP_F_X_KVSTEER },
		{ "x-amzn-sagemaker-inference-component", HTTP_F_X_AMZN_INFERENCE_COMPONENT },
		{ "X-Amzn-SageMaker-Prefix-Aware-Id", HTTP_F_X_AMZN_PREFIX_AWARE_ID }, { "hosts", HTTP_F_OTHER },
		{ "", HTTP_F_OTHER }, { "transfer-encodinG", HTTP_F_TRANSFER_ENCODING },
		{ "endpoint-load-metrics", HTTP_F_ENDPOINT_LOAD_METRICS }, { "proxy-connection", HTTP_F_PROXY_CONNECTION },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(http_field_lookup(rows[i].name, strlen(rows[i].name)), rows[i].id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_line),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_framing_fields),
		cmocka_unit_test(test_chunked),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_smuggler_matrix),
		cmocka_unit_test(test_random_splits),
		cmocka_unit_test(test_field_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
