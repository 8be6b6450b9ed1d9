package quota

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/clientkeys"
	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
	"github.com/weblimit/weblimit/quota/internal/terms"
)

// knownLimit is a limit that this process has, or that another has declared.
type knownLimit struct {
	name string
	rule store.Rule
	keys string // store.Declaration.Keys; "" if nobody has declared them
	err  error  // why this process can't tell the limit's periods; rule is not set then
}

// limit returns the limit of a name. What is said of a limit that no process has reaches nobody,
// so it is refused with [ErrUnknownLimit].
func (b *Book) limit(ctx context.Context, name string) (*knownLimit, error) {
	if k := b.rules.Named(name); k != nil {
		rule, keys := k.Known()
		return &knownLimit{name: name, rule: rule, keys: keys}, nil
	}
	declarations, err := b.ledger.Declarations(ctx)
	if err != nil {
		return nil, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	for i := range declarations {
		if d := &declarations[i]; d.Name == name {
			rule, err := d.Rule()
			return &knownLimit{name: name, rule: rule, keys: d.Keys, err: err}, nil
		}
	}
	names := b.namesWith(declarations)
	hint := meant(name, names, "it has")
	if len(names) == 0 {
		hint = ": no process has one yet; make the limiter, or call PerTenant, before"
	}
	return nil, fmt.Errorf("%w: %q%s", ErrUnknownLimit, name, hint)
}

// namesWith returns the names of the limits that this process has and of those that others have declared, in order.
func (b *Book) namesWith(declarations []ledger.Declaration) []string {
	names := b.rules.Names()
	for i := range declarations {
		names = append(names, declarations[i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// meant returns which of the names that there are was probably meant, or all if they are few, or "". lead stands
// before these.
func meant(name string, names []string, lead string) string {
	const few = 8
	hint := spelling.Meant(name, names)
	if hint == "" && len(names) > 0 && len(names) <= few {
		hint = ": " + lead + " " + strings.Join(names, ", ")
	}
	return hint
}

// limitWithPeriods returns the limit of a name whose periods this process can tell.
func (b *Book) limitWithPeriods(ctx context.Context, name string) (*knownLimit, error) {
	l, err := b.limit(ctx, name)
	if err == nil {
		err = l.err
	}
	return l, err
}

// period returns the limit's period that a time is in; the present one for the zero time.
func (l *knownLimit) period(at time.Time) (start, end int64, err error) {
	switch {
	case at.IsZero():
		at = time.Now()
	case at.Unix() <= 0 || at.After(micros.FarFuture):
		return 0, 0, fmt.Errorf("weblimit: quota: there is no period at %v", at)
	}
	start, end, _ = l.rule.Period(at.UnixMicro())
	return start, end, nil
}

// wantTenant returns [ErrUnknownTenant] for a name that the limit counts nobody under. A key that
// its requests can have is a tenant, and so is any other that the ledger has: of limits that are
// asked by AllowKey, and of those whose keys were others once. f are the facts of the tenant, or nil.
func (b *Book) wantTenant(ctx context.Context, l *knownLimit, tenant string, f *terms.Facts) error {
	if l.counts(tenant) {
		return nil
	}
	text := ledger.TextOf([]byte(tenant))
	if f == nil {
		all, err := b.ledger.Facts(ctx, l.name, []string{text})
		if err != nil {
			return fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
		}
		f = all[text]
	}
	if f.HasTenant() {
		return nil
	}
	if ever, err := b.everUsed(ctx, l.name, text); ever || err != nil {
		return err
	}
	return l.unknownTenant(tenant)
}

// counts reports whether requests can have a key. It is false if nobody has declared the limit's keys.
func (l *knownLimit) counts(tenant string) bool {
	return l.keys != "" && clientkeys.Match(l.keys, tenant)
}

// unknownTenant says which name may be meant. It repeats no text that may be a secret, such as an
// API key without its hash.
func (l *knownLimit) unknownTenant(tenant string) error {
	form := clientkeys.Example(l.keys)
	name := fmt.Sprintf("%.100q under limit %q", tenant, l.name)
	if strings.Contains(form, "#") {
		name = fmt.Sprintf("a name under limit %q", l.name)
	}
	switch {
	case form == "":
		return fmt.Errorf("%w: %s, of which no request was counted", ErrUnknownTenant, name)
	case l.counts(tenant):
		return fmt.Errorf("%w: %s", ErrUnknownTenant, name)
	}
	hint := ""
	if meant := clientkeys.Meant(l.keys, tenant); len(meant) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", meant[0])
	}
	return fmt.Errorf("%w: %s, whose keys are such as %q; another is known once a request was counted under it%s", ErrUnknownTenant, name, form, hint)
}
