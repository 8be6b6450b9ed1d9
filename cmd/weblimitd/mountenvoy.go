package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimitd/internal/listen"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/service/envoy"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

// envoyOptions are the settings of Envoy's rate limit service.
type envoyOptions struct {
	envoyConfig                                       settings.String
	envoyOutage, envoyOverdraw, envoyAlgorithm        settings.Choice
	envoyIndependent, envoyMergeDomains               settings.Bool
	envoyShadow, envoyQuota, envoyHeaders, envoyMetas settings.Bool
	envoyLimit, envoyRemaining, envoyReset            settings.String // names of headers
	envoyNearLimit                                    settings.Float
	envoyTimeout                                      settings.Duration
	envoyDescriptors, envoyEntries, envoySeries       settings.Int
	envoyStartWithout, envoyUnhealthyWithout          settings.Bool
	xds                                               xdsOptions
}

func (o *envoyOptions) add(g settings.Group) {
	g.Add("envoy-config", &o.envoyConfig, "", "folder of configuration files; redis:KEY or postgres:NAME for one file that is published there, xds:HOST:PORT for a control plane")
	o.envoyOutage, o.envoyOverdraw = settings.Choice{Of: []string{"local", "allow", "deny"}}, settings.Choice{Of: []string{"stated", "never", "always"}}
	o.envoyAlgorithm = settings.Choice{Of: envoyAlgorithms()}
	g.Add("envoy-outage", &o.envoyOutage, "local", "what is answered while the store is away: local, allow or deny")
	g.Add("envoy-independent", &o.envoyIndependent, "false", "charge each descriptor by itself, as envoyproxy/ratelimit does")
	g.Add("envoy-overdraw", &o.envoyOverdraw, "stated", "which hits are charged where they do not fit: stated, never or always")
	g.Add("envoy-algorithm", &o.envoyAlgorithm, "fixed_window", "how limits count: "+strings.Join(envoyAlgorithms(), ", "))
	g.Add("envoy-merge-domains", &o.envoyMergeDomains, "false", "several files may have limits of one domain")
	g.Add("envoy-shadow", &o.envoyShadow, "false", "answer OK to every request")
	g.Add("envoy-quota", &o.envoyQuota, "false", "deny a request if all of its descriptors are over their limits")
	o.addHeaders(g)
	g.Add("envoy-dynamic-metadata", &o.envoyMetas, "false", "have responses carry descriptors and metadata")
	o.envoyNearLimit = settings.Float{Max: 1}
	g.Add("envoy-near-limit", &o.envoyNearLimit, "0.8", "the part of a limit above which statistics count hits as near it")
	o.envoyTimeout = settings.Duration{Min: time.Millisecond, Max: time.Minute}
	g.Add("envoy-timeout", &o.envoyTimeout, "100ms", "how long the store may take, if the caller's deadline leaves as much")
	o.envoyDescriptors, o.envoyEntries, o.envoySeries = settings.Int{Min: 1, Max: 255}, settings.Int{Min: 1, Max: 1000}, settings.Int{Min: 1, Max: 1_000_000}
	g.Add("envoy-max-descriptors", &o.envoyDescriptors, "100", "descriptors of a request; one with more is an error")
	g.Add("envoy-max-entries", &o.envoyEntries, "50", "entries of a descriptor; a request with more is an error")
	g.Add("envoy-max-series", &o.envoySeries, "10000", "names that statistics have; hits of further ones are added up")
	g.Add("envoy-start-without-config", &o.envoyStartWithout, "false", "start also where there is no good configuration yet: until there is, every request is answered OK")
	g.Add("envoy-unhealthy-without-config", &o.envoyUnhealthyWithout, "false", "have health checks of Envoy fail while no domain has limits")
	o.xds.add(g)
}

func (o *envoyOptions) addHeaders(g settings.Group) {
	g.Add("envoy-limit-headers", &o.envoyHeaders, "false", "have responses carry RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset")
	g.Add("envoy-limit-header", &o.envoyLimit, "RateLimit-Limit", "name of the header that has the limit, with --envoy-limit-headers")
	g.Add("envoy-remaining-header", &o.envoyRemaining, "RateLimit-Remaining", "name of the header that has what remains")
	g.Add("envoy-reset-header", &o.envoyReset, "RateLimit-Reset", "name of the header that has the seconds until then")
}

// envoyAlgorithms are the words for --envoy-algorithm.
func envoyAlgorithms() (words []string) {
	for _, a := range []envoy.Algorithm{envoy.FixedWindow, envoy.SlidingWindow, envoy.TokenBucket} {
		words = append(words, a.String())
	}
	return words
}

// validateEnvoy checks the settings for Envoy.
func (o *options) validateEnvoy() error {
	if o.envoyConfig != "" {
		for _, name := range []string{"envoy-limit-header", "envoy-remaining-header", "envoy-reset-header"} {
			if !o.envoyHeaders && o.set.From(name) != settings.Unset {
				return fmt.Errorf("--%s needs --envoy-limit-headers", name)
			}
		}
		if err := o.validateXDS(); err != nil {
			return err
		}
		if o.entry != nil { // which has taken or refused them
			return nil
		}
		return o.refuseInherited()
	}
	for _, s := range o.set.All() {
		if strings.HasPrefix(s.Name, "envoy-") && s.Origin() != settings.Unset {
			return fmt.Errorf("%s needs --envoy-config, the folder of Envoy's files", s.Written())
		}
	}
	// An image has the address in its environment, whatever it is started for.
	if from := o.set.From("grpc-listen"); !o.grpcListen.IsOff() && (from == settings.Flag || from == settings.File) {
		return errors.New("--grpc-listen is for Envoy: set --envoy-config to the folder of its files")
	}
	o.grpcListen = listen.Address{Text: listen.Off}
	return nil
}

// envoySource returns the source of Envoy's files, which may be a control plane.
func (p *parts) envoySource() (envoy.Source, *xds.Source, error) {
	if address, ok := p.options.fromXDS(); ok {
		source, err := p.options.xdsSource(address, p.logger)
		return source, source, err
	}
	from, err := p.backend.published("envoy-config", string(p.options.envoyConfig))
	if err != nil {
		return nil, nil, err
	}
	if from != nil {
		return envoy.From(from), nil, nil
	}
	return envoy.Directory(string(p.options.envoyConfig)), nil, nil
}

// envoySettings returns what the settings say, without what files are from and limits are counted in.
func (o *options) envoySettings() (envoy.Config, error) {
	config := envoy.Config{
		Replicas:    o.replicas.N,
		OnOutage:    map[string]core.OutageAction{"local": core.Local, "allow": core.Allow, "deny": core.Deny}[o.envoyOutage.Word],
		Overdraw:    map[string]envoy.Overdraw{"stated": envoy.OverdrawStated, "never": envoy.OverdrawNever, "always": envoy.OverdrawAlways}[o.envoyOverdraw.Word],
		Independent: bool(o.envoyIndependent), MergeDomains: bool(o.envoyMergeDomains), Shadow: bool(o.envoyShadow), Quota: bool(o.envoyQuota),
		DynamicMetadata: bool(o.envoyMetas), NearLimit: o.envoyNearLimit.N, Timeout: o.envoyTimeout.Duration, EndMark: bool(o.endMark),
		MaxDescriptors: o.envoyDescriptors.N, MaxEntries: o.envoyEntries.N, MaxSeries: o.envoySeries.N,
		StartWithout: bool(o.envoyStartWithout), UnhealthyWithout: bool(o.envoyUnhealthyWithout),
	}
	if o.envoyHeaders {
		config.LimitHeaders = &envoy.LimitHeaders{Limit: string(o.envoyLimit), Remaining: string(o.envoyRemaining), Reset: string(o.envoyReset)}
	}
	return config, config.Algorithm.UnmarshalText([]byte(o.envoyAlgorithm.Word))
}

// mountEnvoy is Envoy's rate limit service.
func mountEnvoy(p *parts) (*mount, error) {
	o := p.options
	if o.envoyConfig == "" {
		return nil, nil
	}
	source, plane, err := p.envoySource()
	if err != nil {
		return nil, err
	}
	config, err := o.envoySettings()
	if err != nil {
		return nil, err
	}
	config.Source, config.Store, config.Observe, config.Logger = source, p.store, p.observe, p.logger
	config.AllowEmpty = plane != nil // which has no limits while nobody has asked for any
	server, err := envoy.New(config)
	if err != nil {
		return nil, err
	}
	return &mount{
		name:  "envoy",
		http:  map[string]http.Handler{"/json": server.JSON()},
		open:  map[string]http.Handler{"/healthcheck": p.health.unlessOut(server.Healthcheck())},
		admin: map[string]http.Handler{"GET /metrics/envoy": server.Metrics()},
		grpc:  server.Register, leave: server.Shutdown, reload: server.Reload,
		watch: func(ctx context.Context) {
			stop := server.Watch(ctx)
			<-ctx.Done()
			stop()
		},
		status:  func() any { return envoyStatus(server.Status(), plane) },
		metrics: &envoyState{server, plane},
		loaded: func() string {
			s := server.Status()
			return fmt.Sprintf("envoy %s: %s, %s", o.envoyConfig, counted(s.Domains, "domain"), counted(s.Limits, "limit"))
		},
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
	XDS     *xdsJSON  `json:"xds,omitempty"`
}

func envoyStatus(s envoy.Status, plane *xds.Source) envoyJSON {
	answer := envoyJSON{s.Version, s.Since, s.Domains, s.Limits, s.Changes, s.Refused, "", nil}
	if plane != nil {
		answer.XDS = xdsStatus(plane.Status())
	}
	if s.Err != nil {
		answer.Error = s.Err.Error()
	}
	return answer
}
