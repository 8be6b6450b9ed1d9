// Package proxies is a test suite. It starts real proxies, configured as
// docs/run/proxies.md says, in front of an application of each framework, and sends requests
// with forged headers. Its own tests are about what package frameworks has; package majors
// adds the newer majors.
//
// The tests need Linux, where each address of 127.0.0.0/8 can be a client, and nginx,
// haproxy and caddy in PATH. Without them the tests skip; where CI=true they fail.
package proxies
