package inspect

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/clientkeys"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Of a limit that clients divide (core.Limit.Fair) operators look up the clients. The limit has one bucket for all of them, so there is
// none to be reset or blocked of a client.

// kindsOf returns what the keys that are looked up under a limit are made of: those of its clients, if they divide it.
func kindsOf(d *store.Declaration) string {
	if clients, _ := clientkeys.Clients(d.Keys); clients != "" {
		return clients
	}
	return d.Keys
}

// isClient reports whether a key is of a client that divides the limit, and not that of the limit's bucket.
func isClient(d *store.Declaration, key string) bool {
	clients, _ := clientkeys.Clients(d.Keys)
	return clients != "" && clientkeys.Match(clients, key) && !clientkeys.Match(d.Keys, key)
}

// divide has a check ask about the share of a client. It reports false if nobody can say what that is: the client's weight, or which of
// several buckets of the limit it asks for, are in its requests alone.
func divide(c *store.Check, d *store.Declaration, key string) (known bool) {
	_, equal := clientkeys.Clients(d.Keys)
	everyone := keyfuncs.Everyone().Kind()
	if whole, _, _ := strings.Cut(d.Keys, " "); !equal || whole != everyone || !c.Rule.Divided {
		return false
	}
	c.Key, c.Share = []byte(everyone), &store.Share{Key: []byte(key), Weight: 1}
	return true
}

// unknownShare is what a limit says of a client whose share nobody can say.
func unknownShare(s *pageapi.State) {
	s.Why = "Clients divide this limit, by what only their requests tell: how the client stands now is not known."
	if s.LastDenial != nil {
		s.Why += " The last denial says how it stood then."
	}
}

// shareOf notes how a client stands to its share.
func shareOf(s *pageapi.State, rule *store.Rule, result *store.Result) {
	s.Standing, s.Share, s.Guaranteed = result.Standing.String(), result.Share, rule.Guaranteed
	s.Used = max(min(result.Share, s.Burst)-result.Remaining, 0)
	if result.Standing.IsOver() {
		s.Used = result.Share
	}
}

// shareWhy is stateWhy for a client that divides a limit.
func shareWhy(s *pageapi.State, result *store.Result, window string) string {
	share := fmt.Sprintf("its share of %s per %s", grouped(s.Share), window)
	switch over := result.Standing.IsOver(); {
	case s.State == "denied" && over:
		return fmt.Sprintf("Over %s, and others may need what is left. A cost of %s fits%s.", share, grouped(s.Cost), wait(result.RetryAfter, " in %s, if others ask for as much as now"))
	case s.State == "denied":
		return fmt.Sprintf("Within %s, and the limit itself is used up. A cost of %s fits in %s.", share, grouped(s.Cost), short(result.RetryAfter))
	case over:
		return fmt.Sprintf("Over %s, and others leave enough. %s left.", share, grouped(s.Remaining))
	}
	return fmt.Sprintf("Within %s. %s left.", share, grouped(s.Remaining))
}

// bucketOf returns the key that an action is about, and those of the limits under which it has a bucket that can be reset or blocked.
func (h *Handler) bucketOf(ctx context.Context, text string, limits []store.Declaration) (key string, kept []store.Declaration, p *problem) {
	if key, p = h.keyOf(ctx, text, limits); p != nil {
		return "", nil, p
	}
	kept = slices.DeleteFunc(slices.Clone(limits), func(d store.Declaration) bool { return isClient(&d, key) })
	if len(kept) > 0 {
		return key, kept, nil
	}
	return "", nil, &problem{http.StatusUnprocessableEntity, fmt.Sprintf("Clients divide the limit %s, so none of them has a bucket of its own there: nothing was done. "+
		"Act on the client under another limit.", limits[0].Rule.Name)}
}
