package core

import (
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Shares say how clients divide a limit with [Limit.Fair].
type Shares struct {
	// By tells the clients apart, as [Limit.By] does. Those without a key are one client, whatever
	// [Limit.OnMissingKey] says. Required.
	By keyfuncs.Func

	// Within tells users of one client apart: they divide its share evenly among
	// themselves. So whoever can make up users of a client gains nothing. Those without a key are one user.
	// Defaults to none: a client is not divided.
	Within keyfuncs.Func

	// Of returns the numbers of a request's client, such as those of its plan. It must return the same
	// for all requests of a client, or the latest ones hold. Wrong numbers deny the request with ReasonInvalidCost. Defaults to
	// nil: all clients weigh the same, and nothing is guaranteed to any.
	Of func(keyfuncs.Request) Share

	// Guaranteed is how many units are kept free for those who have a Share.Minimum. No minimum is denied while those
	// of all clients are not more than this together. In a full bucket so many units can be used by nobody
	// else; of the rate nothing is kept, so idle capacity is anybody's. Below the burst. Defaults to 0: a
	// Share.Minimum is then an error.
	Guaranteed int64
}

// Share are the numbers of one client of a limit with [Limit.Fair]. The zero Share is that of a client as all others.
type Share struct {
	// Weight says how large the client's share is beside those of others, from 1 to 1000. Defaults to 1.
	Weight int64

	// Minimum is how many units per window the client can use whatever others do, of what is Guaranteed. Defaults
	// to 0.
	Minimum int64

	// Maximum is how many units per window the client can use, however much is idle. It is a bucket of so many units of
	// its own. At least Minimum, and below the limit itself. Defaults to 0: no bound but that of the limit.
	Maximum int64
}

// Fair divides the limit among clients. While there is room, each can use it all. When there is not enough
// for all, whoever has used more than its share is denied first:
//
//	core.PerSecond(5000).By(keyfuncs.Everyone()).Fair(core.Shares{By: keyfuncs.APIKey("X-API-Key")})
func (l Limit) Fair(shares Shares) Limit {
	l.settings.set(setFair)
	l.fair = &shares
	return l
}

func (s *Shares) validate() error {
	if err := s.By.Err(); err != nil {
		return fmt.Errorf("Fair: By: %w", err)
	}
	if s.Guaranteed < 0 {
		return fmt.Errorf("Fair: Guaranteed must be at least 0, got %d", s.Guaranteed)
	}
	if s.Guaranteed > 0 && s.Of == nil {
		return errors.New("Fair: Guaranteed without Of: nobody has a minimum")
	}
	return nil
}
