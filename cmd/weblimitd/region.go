package main

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/redisclient"
	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/regions"
)

// regionOptions are the settings of a service whose limits hold over several regions.
type regionOptions struct {
	region      settings.String
	regions     settings.Int
	regionFloor settings.Int
	home        redisclient.Settings
	homePool    settings.Int
	homeTimeout settings.Duration
}

func (o *regionOptions) add(g settings.Group) {
	g.Add("region", &o.region, "", "name of this region: limits hold over all regions together").Needs("home-redis").Needs("redis", "postgres")
	o.regions = settings.Int{Min: 2, Max: 64}
	g.Add("regions", &o.regions, "", "how many regions there are, or the most that there may be; the same in all").Needs("region")
	o.regionFloor = settings.Int{Min: 1, Max: 90}
	g.Add("region-floor", &o.regionFloor, "10", "percent of each limit that the regions together grant without asking home; the same in all").Needs("region")
	o.home.AddFor(g, "home-", "the home Redis")
	o.homePool = settings.Int{Min: 1, Max: 10_000}
	g.Add("home-redis-pool-size", &o.homePool, strconv.Itoa(max(10, 4*runtime.GOMAXPROCS(0))), "connections per server of the home Redis").Needs("home-redis")
	o.homeTimeout = settings.Duration{Min: 10 * time.Millisecond, Max: time.Minute}
	g.Add("home-timeout", &o.homeTimeout, "2s", "how long home may take for units that this region asks for in the background").Needs("region")
}

// validate checks what Needless does not: a region says which it is, of how many.
func (o *regionOptions) validate() error {
	switch {
	case o.home.URL != "" && o.region == "":
		return errors.New("--home-redis does nothing without --region")
	case o.region != "" && o.regions.N == 0:
		return errors.New("--region needs --regions, the number of regions")
	case o.region != "" && !store.ValidName(string(o.region)):
		return fmt.Errorf("--region: %q must have 1 to 64 letters, digits and . _ - of ASCII", o.region)
	}
	return nil
}

func (o *regionOptions) config() regions.Config {
	return regions.Config{Region: string(o.region), Regions: o.regions.N, Floor: int64(o.regionFloor.N), HomeTimeout: o.homeTimeout.Duration}
}

// openRegion has the limits of a backend count over several regions. Like the region's own Redis, home may be away at the
// start, and whenever: the region then has its floors, and what it has leased.
func (o *regionOptions) openRegion(b *backend) error {
	if o.region == "" {
		return nil
	}
	server, err := o.home.Server("--home-redis", string(o.home.URL), nil)
	if err != nil {
		return err
	}
	if server.User != "" && server.Password == "" {
		return o.home.NoPassword()
	}
	server.Timeout, server.PoolSize = redisTimeout, o.homePool.N
	redis.SetLogger(quiet{})
	client, err := redisclient.New(server)
	if err != nil {
		return fmt.Errorf("--home-redis: %w", err)
	}
	over, err := regions.New(b.store, redisstore.New(client, redisstore.Config{Prefix: string(o.home.Prefix)}), o.config())
	if err != nil {
		_ = client.Close()
		return err
	}
	local := b.close
	b.store, b.region, b.close = over, o, func() {
		local()
		_ = client.Close()
	}
	return nil
}

// takes returns an error if the store of the service can't count limits, such as one that regions can't lease. A store in
// memory is asked, so that nothing is declared.
func (b *backend) takes(limits []core.Limit) error {
	scratch := core.Store(core.NewMemory())
	if b.region != nil {
		over, err := regions.New(scratch, core.NewMemory(), b.region.config())
		if err != nil {
			return err
		}
		scratch = over
	}
	if _, err := core.New(core.Config{Store: scratch, Limits: limits, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return errors.New(store.Reason(err)) // with the name of the limit, which a policy's place does not say
	}
	return nil
}

// regionJSON is what operators see of a region.
type regionJSON struct {
	Name    string     `json:"name"`
	Regions int        `json:"regions"`
	Home    string     `json:"home"` // up or away, as the region's last question was answered
	Since   *time.Time `json:"away_since,omitempty"`
}

func (b *backend) regionStatus() *regionJSON {
	if b.region == nil {
		return nil
	}
	of := &regionJSON{Name: string(b.region.region), Regions: b.region.regions.N, Home: "up"}
	for _, s := range regional.All(b.store.Registry()) {
		if away := s.Home.Away; !away.IsZero() {
			of.Home, of.Since = "away", &away
		}
	}
	return of
}
