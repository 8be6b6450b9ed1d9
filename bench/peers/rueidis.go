package peers

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"

	"github.com/redis/rueidis"
)

// rueidisScript is the same script as goRedisScript's on a client that pipelines what
// goroutines ask at the same time.
var rueidisScript = Peer{
	Name: "rueidis-script", Module: "github.com/redis/rueidis", Counts: "the same script, pipelined by the client", Baseline: true,
	Redis: func(s Server, q Quota) (Limiter, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{s.Addr},
			SelectDB:          s.DB,
			ForceSingleClient: true,
			DisableCache:      true, // nothing here is cached in the client: no tracking
			DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return d.DialContext(ctx, s.Network, addr)
			},
		})
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
