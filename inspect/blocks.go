package inspect

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/pageapi"
)

const (
	maxBlocks = 1000 // that are listed
	// blocksFor is how long a list is good for, and blocksRest how many times as long as it took to
	// make: on Redis it reads all keys, and must never be most of what Redis does.
	blocksFor  = 5 * time.Second
	blocksRest = 20
)

// blockList is the list of blocks, with the actions of this handler since it was made.
type blockList struct {
	list cached[*pageapi.Blocks]

	mu      sync.Mutex
	changes []change // Guarded by mu.
}

// change is an action that a list may not have yet.
type change struct {
	pageapi.Done
	block bool
	at    time.Time
}

func (h *Handler) serveBlocks(r *request) *problem {
	list, err := h.blocks.list.get(r.Context(), 5*h.config.Timeout, h.makeBlocks)
	if err != nil {
		return gone(err)
	}
	return r.answer(h.blocks.withChanges(list, time.Now()))
}

func (h *Handler) makeBlocks(ctx context.Context) (*pageapi.Blocks, time.Duration) {
	list := &pageapi.Blocks{At: time.Now(), Blocks: []pageapi.Block{}}
	declarations := h.config.Store.Registry().Declarations()
	rules := make([]*store.Rule, len(declarations))
	for i := range declarations {
		rules[i] = &declarations[i].Rule
	}
	for blocked, err := range h.config.Store.Blocks(ctx, rules) {
		if err != nil {
			list.Error = "A part of the store can't be read: " + classOf(err) + "."
			continue
		}
		if len(list.Blocks) == maxBlocks {
			list.More = true
			break
		}
		list.Blocks = append(list.Blocks, pageapi.Block{
			Limit: blocked.Limit, Key: blocked.Key, Label: h.labels.of(blocked.Key), Until: blocked.Until, Level: blocked.Level, Idle: h.idle(declarations, &blocked),
		})
	}
	return list, max(blocksFor, blocksRest*time.Since(list.At))
}

// idle says why a block blocks nobody, if a policy file has changed what the limit counts by; or "". The
// block is in force again when the key comes back, and still is on instances that have the old file.
func (h *Handler) idle(declarations []store.Declaration, b *store.Blocked) string {
	at := slices.IndexFunc(declarations, func(d store.Declaration) bool { return d.Rule.Name == b.Limit })
	if at < 0 {
		return ""
	}
	if _, former := h.former(&declarations[at], b.Key); former {
		return "the limit counts by " + declarations[at].Keys + " now"
	}
	return ""
}

// note remembers an action, so that it shows at once.
func (b *blockList) note(a *pageapi.Done, block bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.changes) == maxBlocks {
		b.changes = slices.Delete(b.changes, 0, 1)
	}
	b.changes = append(b.changes, change{*a, block, time.Now()})
}

// withChanges returns the list with the actions since it was begun, without blocks that have ended, the
// next to end first.
func (b *blockList) withChanges(from *pageapi.Blocks, now time.Time) *pageapi.Blocks {
	b.mu.Lock()
	b.changes = slices.DeleteFunc(b.changes, func(c change) bool { return c.at.Before(from.At) })
	changes := slices.Clone(b.changes)
	b.mu.Unlock()
	list := *from
	list.Blocks = slices.Clone(from.Blocks)
	for _, c := range changes {
		label := ""
		list.Blocks = slices.DeleteFunc(list.Blocks, func(b pageapi.Block) bool {
			same := b.Key == c.Key && slices.Contains(c.Limits, b.Limit)
			if same {
				label = b.Label
			}
			return same
		})
		if c.block {
			list.Blocks = append(list.Blocks, pageapi.Block{Limit: c.Limits[0], Key: c.Key, Label: label, Until: c.Until})
		}
	}
	list.Blocks = slices.DeleteFunc(list.Blocks, func(b pageapi.Block) bool { return !b.Until.After(now) })
	slices.SortFunc(list.Blocks, func(a, b pageapi.Block) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Limit, b.Limit))
	})
	return &list
}
