package envoy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/internal/wholefile"
	"github.com/weblimit/weblimit/policy"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Server is Envoy's rate limit service. It is safe for concurrent use.
type Server struct {
	rls.UnimplementedRateLimitServiceServer

	config  Config
	health  *health.Server
	stats   statistics
	current atomic.Pointer[snapshot]

	strangers strangers

	loader *wholefile.Loader[[]policy.File]

	mu      sync.Mutex
	status  Status // Guarded by mu.
	refused hash   // of the files that were refused last, or "". Guarded by mu.
}

// snapshot is what decides: a request is decided by one, from begin to end.
type snapshot struct {
	rules   *rules
	catalog *compose.Catalog
	hash    hash
}

// hash is the hash of all files. Whether files have changed is told by the whole of it: two files with one beginning take a
// minute to find.
type hash string

// version is what people are shown of it.
func (h hash) version() string { return string(h[:min(len(h), 12)]) }

// New returns a server by the files of config.Source. It does not talk to the store, so it succeeds
// while the store is down. If something is wrong with a file, its error is an [*Error].
func New(config Config) (*Server, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	s := &Server{config: config, health: health.NewServer()}
	s.loader = wholefile.NewLoader(s.read, func(err error) { s.refuse("", err) })
	s.stats.most = config.MaxSeries
	if err := s.Reload(context.Background()); err != nil {
		if !config.StartWithout {
			return nil, err
		}
		if err := s.startWithout(err); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// healthName is the name of the service for grpc.health.v1, as envoyproxy/ratelimit has it.
const healthName = "ratelimit"

// Register adds the services to a gRPC server: envoy.service.ratelimit.v3.RateLimitService and
// grpc.health.v1.Health, which knows "ratelimit" and "".
func (s *Server) Register(to grpc.ServiceRegistrar) {
	to.RegisterService(&service, s)
	healthpb.RegisterHealthServer(to, s.health)
}

// Shutdown has health checks answer that the service does not serve, so that Envoys go to others. It
// still answers requests. Call it before GracefulStop of the gRPC server.
func (s *Server) Shutdown() { s.health.Shutdown() }

// Status says what a [Server] decides by, and what became of its files since.
type Status struct {
	Version string    // the beginning of the hash of the files that decide; "" before the first, with Config.StartWithout
	Since   time.Time // when these files began to decide
	Domains int
	Limits  int   // without those that are unlimited
	Changes int64 // how many versions have replaced another

	// Refused is how many times files were refused, and Err why the last time: an *Error, or that
	// they could not be read. Err is nil once the files are good again.
	Refused int64
	Err     error
}

// Status returns the state of the server, for metrics, health checks and pages.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Reload reads the files again. It is all or nothing: if anything is wrong, everything stays as it is,
// and the error says what. What clients have used of a limit stays used as long as it keeps its domain,
// keys and values; if its numbers change, the store converts what was used.
func (s *Server) Reload(ctx context.Context) error {
	_, err := s.load(ctx, false)
	return err
}

// load is Reload. If it follows a change, files that were refused before are not refused again. It returns
// false if the files could not be read.
func (s *Server) load(ctx context.Context, follows bool) (read bool, err error) {
	return s.loader.Load(ctx, func(files []policy.File) error {
		err := s.take(ctx, files, follows)
		s.acknowledge(s.Status().Err) // which take has set, or left as it was where the same files were refused before
		return err
	})
}

// acknowledge tells the source what became of its files, if it wants to hear it.
func (s *Server) acknowledge(err error) {
	if source, ok := s.config.Source.(Acknowledger); ok {
		source.Acknowledge(err)
	}
}

// read reads the files, of which there must be one unless the configuration allows none.
func (s *Server) read(ctx context.Context) ([]policy.File, error) {
	files, err := s.config.Source.Load(ctx)
	if err == nil && len(files) == 0 && !s.config.AllowEmpty {
		err = errNoFiles
		s.acknowledge(err)
	}
	return files, err
}

// take has files decide, if they are good.
func (s *Server) take(ctx context.Context, files []policy.File, follows bool) error {
	found := hashOf(files)
	before := s.current.Load()
	s.mu.Lock()
	again := follows && s.refused == found
	if before != nil && before.hash == found { // what decides is there again, after files that were refused
		s.refused, s.status.Err, again = "", nil, true
	}
	s.mu.Unlock()
	if again {
		return nil
	}
	next, err := s.snapshot(files, found, before)
	if err != nil {
		s.refuse(found, err)
		return err
	}
	s.current.Store(next)
	s.warnOfDomains(ctx, next.rules)
	s.stats.loaded.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.status.Err = "", nil
	s.status.Version, s.status.Since = found.version(), time.Now()
	s.status.Domains, s.status.Limits = len(next.rules.domains), len(next.rules.limits)-len(next.rules.domains)
	s.tellHealth()
	if s.status.Domains == 0 {
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "weblimit: envoy: there are no limits, every request is answered OK", slog.String("version", found.version()))
	}
	if before != nil {
		s.status.Changes++
		s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "weblimit: envoy: limits changed",
			slog.String("version", found.version()), slog.String("before", before.hash.version()), slog.Int("domains", s.status.Domains), slog.Int("limits", s.status.Limits))
	}
	return nil
}

// snapshot makes files ready to decide, in the place of the snapshot before, unless that is nil.
func (s *Server) snapshot(files []policy.File, found hash, before *snapshot) (*snapshot, error) {
	made, err := compile(files, &s.config)
	if err != nil {
		return nil, err
	}
	next := &snapshot{rules: made, hash: found}
	if before == nil {
		next.catalog, err = compose.NewCatalog(s.config.core(made.limits, found.version()))
	} else {
		next.catalog, err = before.catalog.Next(s.config.core(made.limits, found.version()))
	}
	if err != nil {
		return nil, fmt.Errorf("weblimit: envoy: %w", err)
	}
	return next, nil
}

// refuse notes that files were refused. It is logged once for the same files or error.
func (s *Server) refuse(found hash, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := s.status.Err != nil && s.refused == found && s.status.Err.Error() == err.Error()
	s.refused, s.status.Err = found, err
	if again {
		return
	}
	s.status.Refused++
	s.stats.notLoaded.Add(1)
	if now := s.current.Load(); now != nil {
		message := "weblimit: envoy: files refused, the limits before still decide"
		if now.hash == "" {
			message = "weblimit: envoy: files refused, and there are no limits before: every request is answered OK"
		}
		s.config.Logger.LogAttrs(context.Background(), slog.LevelError, message, slog.String("version", s.status.Version), slog.String("error", err.Error()))
	}
}

// warnOfDomains warns of domains in the configuration that no file has. It is no error: files come and go, and an
// instance that starts again must not fail since one has gone.
func (s *Server) warnOfDomains(ctx context.Context, made *rules) {
	for _, name := range slices.Sorted(maps.Keys(s.config.Algorithms)) {
		if made.domains[name] == nil {
			s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "weblimit: envoy: Config.Algorithms has a domain that no file has"+
				spelling.Meant(name, slices.Sorted(maps.Keys(made.domains))), slog.String("domain", name))
		}
	}
}

// hashOf returns the hash of all files. Names and texts are hashed by themselves, so that a byte that moves from one to
// the next changes it.
func hashOf(files []policy.File) hash {
	all := sha256.New()
	for _, file := range files {
		name, text := sha256.Sum256([]byte(file.Name)), sha256.Sum256(file.Text)
		all.Write(name[:])
		all.Write(text[:])
	}
	return hash(hex.EncodeToString(all.Sum(nil)))
}

// Watch reloads the files whenever they change, until ctx ends or stop is called:
//
//	stop := server.Watch(ctx)
//	defer stop()
//
// Files that are refused change nothing and are logged; [Server.Status] has the error. stop waits until
// a reload that has begun is done.
func (s *Server) Watch(ctx context.Context) (stop func()) {
	return wholefile.Follow(ctx, s.config.Source.Watch, func(ctx context.Context, _ bool) bool {
		read, _ := s.load(ctx, true) // an error is logged, and in the status
		return read
	})
}
