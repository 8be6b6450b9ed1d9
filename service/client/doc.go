// Package client asks a weblimit service for decisions. It needs the standard library and core.
//
// A [Client] is a core.Policies: an adapter decides by a policy of the service as it does by one of a file.
//
//	remote, err := client.New(client.Config{
//		URL:    "http://127.0.0.1:8080",
//		Send:   client.Fields{Values: []string{"user"}},
//		OnOutage: client.OnOutage{Action: core.Deny}, // while the service does not answer
//	})
//	…
//	limits := nethttp.With(core.Config{Store: remote.Store()})
//	server.Handler = limits.Policy(remote, "api")(mux)
//
// Outside HTTP a limiter of it decides for keys:
//
//	limiter, err := remote.Limiter(core.Config{Store: remote.Store()}, "jobs")
//	d := limiter.AllowKey(ctx, "tenant:42", 1)
//
// Requests that come at the same time go to the service together. One that is not answered in time is
// decided by [Config.OnOutage], as during an outage of Redis.
package client
