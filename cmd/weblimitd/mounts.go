package main

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/policy"
)

// mount is a part of weblimit that callers talk to. What a part does not have is nil. The guard stands in front of http and
// grpc, and not of open.
type mount struct {
	name    string                          // in metrics
	http    map[string]http.Handler         // on the data listener, by path, or by its beginning up to a slash
	open    map[string]http.Handler         // the same for everybody: health
	admin   map[string]http.Handler         // on the admin listener, for everybody: metrics
	gateway bool                            // fields of a request are the client's, Authorization too
	grpc    func(grpc.ServiceRegistrar)     // on the gRPC listener, with grpc.health.v1
	leave   func()                          // when the drain begins: has health checks of gRPC fail
	watch   func(ctx context.Context)       // follows its files, until ctx ends
	reload  func(ctx context.Context) error // on SIGHUP
	secrets func() (bool, error)            // reads them again, now and then and on SIGHUP
	drain   func(ctx context.Context) error // when the servers have stopped
	status  func() any                      // for operators
	loaded  func() string                   // what its files say, in words
	metrics prometheus.Collector            // of what it decides by
}

// parts are what mounts are made of.
type parts struct {
	policies *policy.Set // nil without --policy
	backend  *backend
	store    core.Store
	health   *health
	observe  core.Observer
	logger   *slog.Logger
	options  *options
}

// mounts are what this service has.
var mounts = []func(*parts) (*mount, error){mountService, mountGateway, mountEnvoy}
