// Package llmlimit limits calls of language models by requests, tokens and money. It reads which model a request is for
// and what it may cost, reserves that, reads what the answer has used as it passes, whether it is streamed or not, and
// charges it in place of the estimate. It knows the forms of OpenAI, Anthropic, Gemini and Bedrock.
//
// In a gateway, between the limits and the proxy:
//
//	meter := llmlimit.Must(llmlimit.New(llmlimit.Config{Prices: prices}))
//	limits := nethttp.With(core.Config{Store: store}, nethttp.Config{Denied: meter.Denied})
//	limit := limits.Limit(
//		meter.Limit("requests", llmlimit.Requests, core.PerMinute(60).By(user)),
//		meter.Limit("tokens", llmlimit.Tokens, core.PerMinute(100_000).By(user, meter.Model())),
//		meter.Limit("money", llmlimit.Money, core.PerMonth(50_000_000, time.UTC).By(user)),
//	)
//	proxy := &httputil.ReverseProxy{Rewrite: rewrite, Transport: meter.Transport(nil)}
//	handler := meter.Read(limit(proxy))
//
// In a program that calls models itself, [Meter.Limited] is the transport of its client.
//
// No answer is kept, copied or delayed: bytes are passed on as they come, and read on the way. A stream takes less than
// 2 KiB of memory, and no goroutine.
//
// # What is charged
//
// A call costs what its answer tells, and else its estimate: all of it where nothing is told, as in a body that is
// compressed, and the part that is not told where a stream ends early. An answer of another status than 2xx in which
// nothing is told costs nothing. An answer of a host that is not trusted never lowers a charge; see Config.Trust.
package llmlimit
