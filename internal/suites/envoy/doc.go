// Package envoy runs envoyproxy/ratelimit beside weblimit's service for Envoy: both get the same files
// and the same random requests, and answer them in the same way but for what docs/service/envoy.md lists. It
// also measures both.
package envoy
