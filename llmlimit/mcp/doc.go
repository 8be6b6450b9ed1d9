// Package mcp limits the tools of servers of the Model Context Protocol over HTTP: a key and conditions by the tool that a
// request calls, and denials as errors of JSON-RPC, which clients of the protocol give to their program.
//
//	tools, err := mcp.New(mcp.Config{Tools: []string{"search", "render"}})
//	limits := nethttp.With(core.Config{Store: store}, nethttp.Config{Denied: tools.Denied})
//	limit := limits.Limit(
//		core.PerMinute(60).By(user, tools.Tool()).Named("tool").When(tools.Calls()).CostBy(tools.Cost),
//		core.PerHour(20).By(user).Named("render").When(tools.Calls("render")).CostBy(tools.Cost),
//	)
//	handler := tools.Read(limit(server))
//
// # What is read
//
// The method and params.name of a request, as its body has them, of which at most Config.Peek bytes are kept until they
// are passed on. Where there is doubt which tool it calls, it may be each of them: its tool is [Other], and all
// conditions of tools hold. Doubt is a body that is longer, no JSON, or compressed, a name that is there twice or in other
// case, and a batch, which the protocol had in its version of 2025-03-26 alone.
package mcp
