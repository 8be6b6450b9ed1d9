package peers

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislimiter"
)

// rueidisScript is the same script as goRedisScript's on a client that pipelines what
// goroutines ask at the same time.
var rueidisScript = Peer{
	Name: "rueidis-script", Module: rueidisModule, Counts: "the same script, pipelined by the client", Baseline: true,
	Redis: func(s Server, q Quota) (Limiter, error) {
		client, err := rueidis.NewClient(s.rueidis())
		if err != nil {
			return Limiter{}, err
		}
		script := rueidis.NewLuaScript(fixedWindow)
		args := []string{strconv.FormatInt(q.Window.Milliseconds(), 10)}
		return Limiter{
			Check: func(ctx context.Context, key string) (bool, error) {
				n, err := script.Exec(ctx, client, []string{"lean:" + key}, args).AsInt64()
				return err == nil && n <= q.Units, err
			},
			Close: client.Close,
		}, nil
	},
}

// rueidisLimiter is the limiter of rueidis's authors, which pipelines as rueidisScript does.
var rueidisLimiter = Peer{
	Name: "rueidislimiter", Module: rueidisModule + "/rueidislimiter", Counts: "fixed window that begins with a key's first check, and a second key for its end; pipelined by the client",
	Redis: func(s Server, q Quota) (Limiter, error) {
		var client rueidis.Client
		limiter, err := rueidislimiter.NewRateLimiter(rueidislimiter.RateLimiterOption{
			ClientOption: s.rueidis(),
			ClientBuilder: func(o rueidis.ClientOption) (_ rueidis.Client, err error) {
				client, err = rueidis.NewClient(o)
				return client, err
			},
			Limit: int(q.Units), Window: q.Window,
		})
		if err != nil {
			return Limiter{}, err
		}
		return Limiter{
			Check: func(ctx context.Context, key string) (bool, error) {
				result, err := limiter.Allow(ctx, key)
				return result.Allowed, err
			},
			Close: client.Close,
		}, nil
	},
}

const rueidisModule = "github.com/redis/rueidis"

// rueidis returns the options of a rueidis client.
func (s Server) rueidis() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{s.Addr},
		SelectDB:          s.DB,
		ForceSingleClient: true,
		DisableCache:      true, // nothing here is cached in the client: no tracking
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, s.Network, addr)
		},
	}
}
