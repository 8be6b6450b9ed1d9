// Package gateways holds tests only. They start real gateways with the configurations of deploy/gateways, in
// front of a limiter and an application, send forged requests, and stop, freeze and restart the limiter.
//
// The tests need Linux, and nginx, haproxy and caddy in PATH. Without them the tests skip; where CI=true they
// fail. Traefik is in no Debian release: its tests skip without it, everywhere.
package gateways
