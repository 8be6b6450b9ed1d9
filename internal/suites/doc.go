// Package suites holds tests that need more than the main module requires: other parsers, clients, a browser,
// another service for Envoy, frameworks. They are one module, so that what they share is compiled once. It asks for
// the versions that the modules of users ask for, not for the newest, so that what it shares with these is not
// compiled again either. Echo 5 and Fiber 3 are in the module majors, since Fiber 3 asks for a newer fasthttp than
// the others are to be tested with, and Helm's engine in the module charts, since it asks for newer ones of much.
// Comparisons with other limiters, which need newer ones of all, are in bench.
//
//   - adversary: random bytes to each framework, and an oracle
//   - billing: a bill against a journal, while processes, Redis and PostgreSQL are killed
//   - clients: clients of Node, Go, Python and curl that read our headers and wait for Retry-After
//   - conformance: headers against another parser, preflights against other CORS middleware
//   - envoy: envoyproxy/ratelimit beside service/envoy, with the same files and requests
//   - frameworks: an application on each framework by one description
//   - gateways: nginx, Caddy, HAProxy and Traefik with the configurations of deploy/gateways
//   - kit: weblimittest on each framework
//   - mutants: mistakes made on purpose, and who notices them
//   - page: the page of inspect in a real browser
//   - policyschema: the JSON Schema of policy files against their loader
//   - prometheus: alerts, rules and the dashboard on a real Prometheus
//   - prove: histories of several processes, checked for linearizability
//   - proxies: real proxies before each framework, and forged headers
//   - service: the service with policy files, Redis and adapters, against its OpenAPI description
package suites
