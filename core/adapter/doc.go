// Package adapter is for authors of adapters: of middleware for a framework that weblimit
// has none for, or of interceptors for another protocol. Applications do not need it.
//
// An adapter implements [keyfuncs.Request] over the framework's own request. For each
// request it calls [Limiter.Decide], writes the decision's headers to the response, and
// either goes on to the handler or answers the denial. Where [Limiter.Reserved] says so, it calls
// core.Decision.Settle after the handler. Its With returns a [SettingsOf], or a [Shared] where there are no handlers
// that could ask a guard. The Example is a whole adapter for net/http.
package adapter
