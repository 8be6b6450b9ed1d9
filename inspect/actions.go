package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/internal/clientkeys"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/internal/seam"
)

// action is what is done to the checks of one key.
type action struct {
	name string
	do   func(ctx context.Context, checks []store.Check) error
}

func (h *Handler) serveReset(r *request) *problem {
	return h.act(r, func(*pageapi.Act) (action, *problem) {
		return action{"reset", func(ctx context.Context, checks []store.Check) error {
			// A KeptError comes last: nothing else has failed then.
			if err := seam.Local(h.config.Store).Reset(ctx, checks); err != nil {
				return errors.Join(err, withoutKept(h.config.Store.Reset(ctx, checks)))
			}
			return h.config.Store.Reset(ctx, checks)
		}}, nil
	})
}

func (h *Handler) serveUnblock(r *request) *problem {
	return h.act(r, func(*pageapi.Act) (action, *problem) {
		return action{"unblock", func(ctx context.Context, checks []store.Check) error {
			return errors.Join(seam.Local(h.config.Store).Unblock(ctx, checks), h.config.Store.Unblock(ctx, checks))
		}}, nil
	})
}

func (h *Handler) serveBlock(r *request) *problem {
	return h.act(r, func(ask *pageapi.Act) (action, *problem) {
		most := int64(h.config.MaxBlock / time.Second)
		switch {
		case ask.Seconds < 1 || ask.Seconds > most:
			return action{}, &problem{http.StatusBadRequest, fmt.Sprintf("seconds must be from 1 to %d.", most)}
		}
		d := time.Duration(ask.Seconds) * time.Second
		return action{"block", func(ctx context.Context, checks []store.Check) error {
			return h.config.Store.Block(ctx, checks, d)
		}}, nil
	})
}

// act reads an action, does it, and writes a line about it, whatever becomes of it.
func (h *Handler) act(r *request, prepare func(*pageapi.Act) (action, *problem)) *problem {
	var ask pageapi.Act
	if p := readBody(r.ResponseWriter, r.Request, &ask); p != nil {
		return p
	}
	if p := checkKey("key", ask.Key); p != nil {
		return p
	}
	a, p := prepare(&ask)
	if p != nil {
		return p
	}
	if a.name != "block" && ask.Seconds != 0 {
		return &problem{http.StatusBadRequest, "seconds is for block alone."}
	}
	limits, p := h.limitsOf(&ask, a)
	if p != nil {
		return p
	}
	key, limits, p := h.bucketOf(r.Context(), strings.TrimSpace(ask.Key), limits)
	if p != nil {
		return p
	}
	if a.name == "block" && ask.Limit == "" {
		if limits, p = onlyOne(limits, key); p != nil {
			return p
		}
		ask.Limit = limits[0].Rule.Name
	}
	if kinds, former := h.former(&limits[0], key); former && a.name == "block" {
		return &problem{http.StatusUnprocessableEntity, fmt.Sprintf("The limit %s counts by %s now, and no more by %s, so this would block nobody. A key looks like %s.",
			ask.Limit, limits[0].Keys, kinds, clientkeys.Example(limits[0].Keys))}
	}
	rules := make([]*store.Rule, len(limits))
	for i := range limits {
		rules[i] = &limits[i].Rule
	}
	kept, err := h.do(r.Context(), a, []byte(key), rules)
	h.audit(r, a, &ask, key, kept, len(kept) < len(rules), err)
	rules = slices.DeleteFunc(rules, func(r *store.Rule) bool { return slices.Contains(kept, r.Name) })
	switch {
	case err == nil && len(kept) > 0 && len(rules) == 0:
		return &problem{http.StatusConflict, cantReset(kept)}
	case err != nil:
		return &problem{
			http.StatusServiceUnavailable,
			"The store did not answer, so it is not known whether anything changed: " + classOf(err) + ".",
		}
	}
	answer := pageapi.Done{Action: a.name, Key: key, Limits: make([]string, len(rules)), Kept: kept}
	for i, rule := range rules {
		answer.Limits[i] = rule.Name
	}
	if a.name == "block" {
		answer.Until = time.Now().Add(time.Duration(ask.Seconds) * time.Second)
	}
	h.blocks.note(&answer, a.name == "block")
	return r.answer(answer)
}

// cantReset says why nothing was reset, and what to do instead.
func cantReset(kept []string) string {
	return strings.Join(kept, ", ") + ": what is used is kept in a book, for bills, so it can't be reset. " +
		"To let the client go on, raise its allowance: quota.Book.Adjust, or weblimit quota adjust."
}

// do acts on a key under all rules. It goes on when the client hangs up: half an action helps nobody.
// It returns the limits that can't be reset.
func (h *Handler) do(ctx context.Context, a action, key []byte, rules []*store.Rule) (kept []string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.config.Timeout)
	defer cancel()
	for part := range slices.Chunk(rules, checksEach) {
		checks := make([]store.Check, len(part))
		for i, rule := range part {
			checks[i] = store.Check{Key: key, Rule: rule}
		}
		failed := a.do(ctx, checks)
		if inBook := (*books.KeptError)(nil); errors.As(failed, &inBook) {
			kept = append(kept, inBook.Limits...)
			continue
		}
		err = errors.Join(err, failed)
	}
	return kept, err
}

// limitsOf returns the limits that an action is about.
func (h *Handler) limitsOf(ask *pageapi.Act, a action) (limits []store.Declaration, _ *problem) {
	for _, d := range h.config.Store.Registry().Declarations() {
		if ask.Limit != "" && ask.Limit != d.Rule.Name {
			continue
		}
		if a.name == "block" && d.Shadow {
			if ask.Limit == "" {
				continue
			}
			return nil, &problem{http.StatusUnprocessableEntity, "This limit is in shadow mode, so it blocks nobody."}
		}
		limits = append(limits, d)
	}
	if len(limits) == 0 && ask.Limit != "" {
		return nil, &problem{http.StatusNotFound, "There is no limit of this name in this process."}
	}
	if len(limits) == 0 {
		return nil, &problem{http.StatusUnprocessableEntity, "This process has no limit that is enforced."}
	}
	return limits, nil
}

// onlyOne returns the limit under which a key is to be blocked if nobody has said it: it never chooses
// one of several.
func onlyOne(limits []store.Declaration, key string) ([]store.Declaration, *problem) {
	counting := slices.DeleteFunc(slices.Clone(limits), func(d store.Declaration) bool { return !clientkeys.Match(d.Keys, key) })
	if len(counting) == 0 {
		counting = limits
	}
	if len(counting) == 1 {
		return counting, nil
	}
	names := make([]string, len(counting))
	for i := range counting {
		names[i] = counting[i].Rule.Name
	}
	return nil, &problem{http.StatusBadRequest, "limit is missing: say under which one to block, of " + inWords(names, "and") + "."}
}

// withoutKept returns an error, unless it says only that some limits are kept.
func withoutKept(err error) error {
	if errors.Is(err, books.ErrKept) {
		return nil
	}
	return err
}

// audit writes the line about an action.
func (h *Handler) audit(r *request, a action, ask *pageapi.Act, key string, kept []string, did bool, err error) {
	attrs := []slog.Attr{
		slog.String("action", a.name), slog.String("actor", oneLine(r.actor)), slog.String("key", h.logKey(key)),
	}
	if ask.Limit != "" {
		attrs = append(attrs, slog.String("limit", ask.Limit))
	}
	if a.name == "block" {
		attrs = append(attrs, slog.Duration("for", time.Duration(ask.Seconds)*time.Second))
	}
	level, result := slog.LevelInfo, "done"
	if !did {
		result = "refused"
	}
	if err != nil {
		level, result = slog.LevelError, "unknown: "+classOf(err)
	}
	if len(kept) > 0 {
		attrs = append(attrs, slog.String("kept", strings.Join(kept, ",")))
	}
	attrs = append(attrs, slog.String("result", result))
	h.log().LogAttrs(r.Context(), level, "weblimit: inspect action", attrs...)
}

// logKey calls the application's function, whose panic must not hide that something was done.
func (h *Handler) logKey(key string) (text string) {
	defer func() {
		if recover() != nil {
			text = hashKey(key)
		}
	}()
	return h.config.LogKey(key)
}

// hashKey returns what the log has of a key.
func hashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// oneLine returns an actor's name as a log can have it.
func oneLine(s string) string {
	text := []rune(s)
	if len(text) > 128 {
		text = text[:128]
	}
	for i, c := range text {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == '\u2028' || c == '\u2029' {
			text[i] = '\uFFFD'
		}
	}
	return string(text)
}

// classOf returns the class of a store's error. The error's own text stays out.
func classOf(err error) string { return string(store.ErrorOf(err).Class) }
