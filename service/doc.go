// Package service decides for programs that can't, or should not, decide themselves: a JSON API over
// the policies of a file.
//
//	set, err := policy.Load("limits.yaml")
//	…
//	s, err := service.New(service.Config{Policies: set, Store: store})
//	…
//	http.Handle("/v1/", s.Handler())
//
// A caller describes a request that it has received, or gives a key, and gets the decision:
//
//	curl -H 'Content-Type: application/json' localhost:8080/v1/check \
//	  -d '{"policy": "api", "request": {"client_ip": "192.0.2.1"}}'
//
// docs/service/http.md describes the API, and so does GET /v1/openapi.json. The package
// service/client is a client for Go.
//
// # Security
//
// The service believes what a caller says: which address a request came from, which user has sent it.
// So only your own programs may reach it: on loopback, on a unix socket, by mutual TLS or with
// Config.Tokens. Requests of web pages are refused. What a caller passes on from its client, such
// as headers, is as harmless here as in an adapter: keys are escaped and hashed, and all is bounded.
package service
