package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/spelling"
)

// Change is one difference between two policy files.
type Change struct {
	Policy string // that it is in
	Limit  string // its name, or "" for a setting of the policy, or the policy itself
	Text   string // what changes and for whom: "5 → 3 per 15m; keys keep what they used"
}

// String returns the change with the place: "api, login: 5 → 3 per 15m; keys keep what they used".
func (c Change) String() string {
	if c.Limit == "" {
		return c.Policy + ": " + c.Text
	}
	return c.Policy + ", " + c.Limit + ": " + c.Text
}

// Diff says in words what changes from one policy file to the other, and whom it affects. Both files
// must be good; the Options are as for [Load].
func Diff(from, to File, options ...Options) ([]Change, error) {
	o, err := single(options)
	if err != nil {
		return nil, err
	}
	a, err := compile(context.Background(), from.Name, from.Text, &o)
	if err != nil {
		return nil, err
	}
	b, err := compile(context.Background(), to.Name, to.Text, &o)
	if err != nil {
		return nil, err
	}
	return diff(a, b), nil
}

// changes are the differences between two files.
type changes []Change

func (c changes) lines() []string {
	all := make([]string, len(c))
	for i := range c {
		all[i] = c[i].String()
	}
	return all
}

// diff returns what changes from one document to another, policy by policy: first those that are gone, then the others in
// the order of the new file.
func diff(a, b *document) (all changes) {
	for _, name := range a.names {
		if _, stays := b.policies[name]; !stays {
			all = append(all, Change{name, "", "the policy is gone"})
		}
	}
	for _, name := range b.names {
		now := b.view(name)
		if _, there := a.policies[name]; !there {
			all = append(all, Change{name, "", fmt.Sprintf("new policy with %d %s", len(now.limits), spelling.Plural(len(now.limits), "limit"))})
			continue
		}
		all = append(all, now.since(a.view(name))...)
	}
	return all
}

// view is a policy as it is compared.
type view struct {
	name     string
	settings map[string]string // as written, in one line
	limits   map[string]*limitView
	order    []string
}

type limitView struct {
	rule   core.Rule
	text   string
	shadow bool
	fields map[string]string // as written, in one line
}

// view returns a policy as it is written, and not as what is made of it: functions of the application can't be compared, and
// their names can. A setting that only the defaults have counts as the policy's own, so moving it changes nothing.
func (d *document) view(name string) *view {
	n, defaults := d.root.get("policies").get(name), d.root.get("defaults")
	v := &view{name: name, settings: make(map[string]string), limits: make(map[string]*limitView)}
	shadow := false
	for _, f := range settings {
		of := n.get(f.name)
		if of == nil {
			of = defaults.get(f.name)
		}
		if f.name == "shadow" {
			shadow = of.isTrue()
		} else if of != nil {
			v.settings[f.name] = of.inline()
		}
	}
	add := func(limits *node, when string, shadow bool) {
		if limits == nil {
			return
		}
		for _, m := range limits.fields {
			l := &limitView{text: m.value.get("limit").string(), shadow: shadow || m.value.get("shadow").isTrue(), fields: make(map[string]string)}
			if parsed, err := core.ParseLimit(l.text); err == nil {
				l.rule, _ = parsed.Rule()
			}
			for _, f := range m.value.fields {
				l.fields[f.key.text] = f.value.inline()
			}
			if when != "" {
				l.fields["group"] = when
			}
			v.limits[m.key.text] = l
			v.order = append(v.order, m.key.text)
		}
	}
	if of := n.get("choices"); of != nil {
		v.settings["choices"] = of.inline()
	}
	add(n.get("limits"), "", shadow)
	if groups := n.get("groups"); groups != nil {
		for _, g := range groups.fields {
			add(g.value.get("limits"), g.value.get("when").inline(), shadow || g.value.get("shadow").isTrue())
		}
	}
	return v
}

// inline returns a node in one line, as YAML writes it in braces.
func (n *node) inline() string {
	switch n.kind {
	case kindObject:
		parts := make([]string, len(n.fields))
		for i, f := range n.fields {
			parts[i] = f.key.text + ": " + f.value.inline()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case kindList:
		parts := make([]string, len(n.items))
		for i, item := range n.items {
			parts[i] = item.inline()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return strings.Trim(spelling.Quote(n.text), `"`)
}

// since returns what has changed since a view of the same policy.
func (v *view) since(before *view) (all []Change) {
	for _, f := range slices.Concat(settings, []field{choicesField}) {
		a, b := before.settings[f.name], v.settings[f.name]
		if a != b {
			all = append(all, Change{v.name, "", f.name + ": " + fromTo(a, b) + inSettings[f.name]})
		}
	}
	for _, name := range before.order {
		if _, stays := v.limits[name]; !stays {
			all = append(all, Change{v.name, name, "the limit is gone: requests are no longer limited by " + before.limits[name].words()})
		}
	}
	for _, name := range v.order {
		now, was := v.limits[name], before.limits[name]
		if was == nil {
			all = append(all, Change{v.name, name, "new limit: " + now.words() + now.mode()})
			continue
		}
		for _, text := range now.since(was) {
			all = append(all, Change{v.name, name, text})
		}
	}
	return all
}

// inSettings says for whom a change of a setting matters, where that is not plain.
var inSettings = map[string]string{ //nolint:gosec // G101: a field, and no credential
	"client_ip":  "; clients may have other keys, which begin anew",
	"key_secret": "; all keys begin anew",
}

func fromTo(a, b string) string {
	const none = "(not set)"
	if a == "" {
		a = none
	}
	if b == "" {
		b = none
	}
	return a + " → " + b
}

// words returns a limit in a few words: "5 per 15m by ip".
func (l *limitView) words() string { return per(&l.rule, l.text) + " by " + l.fields["by"] }

func (l *limitView) mode() string {
	if l.shadow {
		return ", in shadow mode: nobody is denied"
	}
	return ""
}

// per returns the numbers of a rule: "5 per 15m".
func per(r *core.Rule, text string) string {
	if r.Algorithm == store.Concurrency || r.Algorithm == store.Calendar || r.Window == 0 {
		return text
	}
	return fmt.Sprintf("%d per %s", r.Quota, windowWords(r.Window))
}

func windowWords(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	case 7 * 24 * time.Hour:
		return "week"
	}
	return shortDuration(d)
}

// since returns what has changed since an earlier version of the limit.
func (l *limitView) since(before *limitView) (all []string) {
	begins := l.fields["by"] != before.fields["by"]
	keep := "; keys keep what they used"
	if begins {
		all = append(all, "by "+fromTo(before.fields["by"], l.fields["by"])+"; all keys begin anew")
	}
	if l.fields["limit"] != before.fields["limit"] {
		a, b := &before.rule, &l.rule
		text := before.text + " → " + l.text
		// "5 → 3 per 15m" if only the number has changed, and otherwise both limits as they are written.
		same := a.Numbers
		same.Quota, same.Burst, same.Whole = b.Quota, b.Burst, b.Whole
		wholes := a.Burst == a.Quota && b.Burst == b.Quota
		if same == b.Numbers && wholes && per(b, "") != "" && a.Quota != b.Quota {
			text = fmt.Sprintf("%d → %s", a.Quota, per(b, ""))
		}
		// Slots are held and not counted, so nothing of one kind can be taken over into the other.
		if begins || (a.Algorithm == store.Concurrency) != (b.Algorithm == store.Concurrency) {
			keep = "; all keys begin anew"
		}
		all = append(all, text+keep)
	}
	for _, f := range limitFields {
		a, b := before.fields[f], l.fields[f]
		if a == b {
			continue
		}
		all = append(all, f+": "+fromTo(a, b)+inLimits[f])
	}
	switch {
	case l.shadow && !before.shadow:
		all = append(all, "in shadow mode from now on: nobody is denied")
	case before.shadow && !l.shadow:
		all = append(all, "enforced from now on: clients over it are denied, with what they have used so far")
	}
	return all
}

// limitFields are the fields whose changes are told as they are written.
var limitFields = func() []string {
	names := append(limitObject.names(), "group")
	return slices.DeleteFunc(names, func(name string) bool {
		return name == "by" || name == "limit" || name == "shadow" || name == "description"
	})
}()

// inLimits says for whom a change of a field matters, where that is not plain.
var inLimits = map[string]string{
	"when":   "; other requests are limited than before",
	"unless": "; other requests are limited than before",
	"group":  "; other requests are limited than before",
}
