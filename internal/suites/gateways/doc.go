// Package gateways holds tests only. They start real gateways with the configurations of deploy/gateways, in
// front of weblimitd and an application, send forged requests, and stop, freeze and restart the limiter.
//
// The tests need Linux, and nginx, haproxy and caddy in PATH. Without them the tests skip; where CI=true they
// fail. The recipes for gateways that can't run here also need nginx's module for Lua, and node. Traefik is in no Debian release: its tests skip without it, everywhere. This builds it, in ten minutes
// (v3.7.13 was tried, too):
//
//	git clone --depth 1 --branch v3.5.3 https://github.com/traefik/traefik && cd traefik
//	mkdir -p webui/static && touch webui/static/index.html
//	CGO_ENABLED=0 go build ./cmd/traefik
package gateways
