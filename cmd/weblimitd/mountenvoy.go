package main

import (
	"context"
	"net/http"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/service/envoy"
)

// envoyAlgorithms are the words for --envoy-algorithm.
func envoyAlgorithms() (words []string) {
	for _, a := range []envoy.Algorithm{envoy.FixedWindow, envoy.SlidingWindow, envoy.TokenBucket} {
		words = append(words, a.String())
	}
	return words
}

// mountEnvoy is Envoy's rate limit service.
func mountEnvoy(p *parts) (*mount, error) {
	o := p.options
	if o.envoyConfig == "" {
		return nil, nil
	}
	config := envoy.Config{
		Source: envoy.Directory(string(o.envoyConfig)), Store: p.store, Observe: p.observe, Logger: p.logger, Replicas: o.replicas.N,
		Outage:      map[string]core.Outage{"local": core.Local, "allow": core.Allow, "deny": core.Deny}[o.envoyOutage.Word],
		Overdraw:    map[string]envoy.Overdraw{"stated": envoy.OverdrawStated, "never": envoy.OverdrawNever, "always": envoy.OverdrawAlways}[o.envoyOverdraw.Word],
		Independent: bool(o.envoyIndependent), MergeDomains: bool(o.envoyMergeDomains), Shadow: bool(o.envoyShadow), Quota: bool(o.envoyQuota),
		DynamicMetadata: bool(o.envoyMetas),
	}
	if err := config.Algorithm.UnmarshalText([]byte(o.envoyAlgorithm.Word)); err != nil {
		return nil, err
	}
	if o.envoyHeaders {
		config.LimitHeaders = &envoy.LimitHeaders{}
	}
	server, err := envoy.New(config)
	if err != nil {
		return nil, err
	}
	return &mount{
		name:  "envoy",
		http:  map[string]http.Handler{"/json": server.JSON()},
		open:  map[string]http.Handler{"/healthcheck": server.Healthcheck()},
		admin: map[string]http.Handler{"GET /metrics/envoy": server.Metrics()},
		grpc:  server.Register, leave: server.Shutdown, reload: server.Reload,
		watch: func(ctx context.Context) {
			stop := server.Watch(ctx)
			<-ctx.Done()
			stop()
		},
		status: func() any { return envoyStatus(server.Status()) },
	}, nil
}

// envoyJSON is what operators see of Envoy's configuration.
type envoyJSON struct {
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
	Domains int       `json:"domains"`
	Limits  int       `json:"limits"`
	Changes int64     `json:"changes"`
	Refused int64     `json:"refused"`
	Error   string    `json:"error,omitempty"`
}

func envoyStatus(s envoy.Status) envoyJSON {
	answer := envoyJSON{s.Version, s.Since, s.Domains, s.Limits, s.Changes, s.Refused, ""}
	if s.Err != nil {
		answer.Error = s.Err.Error()
	}
	return answer
}
