package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/internal/wholefile"
	"github.com/weblimit/weblimit/keyfuncs"
)

// document is a policy file made ready. It does not change.
type document struct {
	version  Version
	policies map[string]*policy
	names    []string // of policies, in the order of the file
	root     *node
	text     []byte
}

// policy is one policy of a file.
type policy struct {
	name   string
	limits []core.Limit
	parts  map[string]part      // its limits by name, before choices are made of some
	order  []string             // their names
	apply  []func(*core.Config) // what it sets beside its limits
	bypass []keyfuncs.Condition
	byPeer bool // see Status.ByPeer
}

// Version says which state of a policy file decides.
type Version struct {
	// Name is the file's own version, or "".
	Name string

	// Hash is the SHA-256 of the file, in hexadecimal digits.
	Hash string
}

// String returns the name, "#" and the first 12 digits of the hash, or these alone.
func (v Version) String() string {
	short := v.Hash[:min(len(v.Hash), 12)]
	if v.Name == "" {
		return short
	}
	return v.Name + "#" + short
}

// config returns the configuration of a policy for a limiter of the application.
func (d *document) config(base core.Config, name string) (core.Config, error) {
	p, ok := d.policies[name]
	if !ok {
		hint := spelling.Meant(name, d.names)
		if hint == "" {
			hint = "; the file has " + among(d.names[:min(len(d.names), 20)])
		}
		return base, noPolicy(fmt.Sprintf("weblimit: there is no policy %q%s", name, hint))
	}
	if len(base.Limits) > 0 {
		return base, fmt.Errorf("weblimit: policy %q: Config.Limits must be empty: the limits are those of the policy", name)
	}
	base.Limits = p.limits
	// Clipped, here and below: base is read again at each reload, and append must not write behind its end.
	base.Bypass = append(base.Bypass[:len(base.Bypass):len(base.Bypass)], p.bypass...)
	for _, set := range p.apply {
		set(&base)
	}
	base.Version = d.version.String()
	return base, nil
}

// noPolicy is the message of an error that is core.ErrNoPolicy.
type noPolicy string

func (e noPolicy) Error() string { return string(e) }

func (noPolicy) Is(target error) bool { return target == core.ErrNoPolicy }

// builder makes a document of nodes. It passes over those with a problem, so that the problems of
// others are found, too.
type builder struct {
	*problems
	ctx        context.Context // of reading secrets
	options    *Options
	secrets    map[string]string // by reference
	strategies map[*node]keyfuncs.Strategy
	seen       map[string]declared // limits by name, of all policies
}

// declared is a limit of the file, to compare others of its name with.
type declared struct {
	policy string
	line   int
	rule   core.Rule
	keys   string

	mode      uint8 // the place of regions in regionModes
	overdraft int64
}

// scope is a builder within one policy.
type scope struct {
	*builder
	ip     *node           // client_ip, or nil
	secret []byte          // key_secret, or nil
	byPeer bool            // a key is ip, and nothing says how it is found
	chosen map[string]bool // the names of limits in choices, which say together what becomes of them in shadow mode and in outages
}

// secretsTimeout bounds how long the files of all secrets of a file take together: one can be a mount that hangs.
const secretsTimeout = 30 * time.Second

// compile makes a document of a file, or returns an *Error with everything that is wrong with it. ctx
// bounds the reading of secrets.
//
// It goes on after a problem, so that the author mends a file once and not line by line: first shapes are checked,
// then what each value means, then what a policy's limits mean together. A value with a problem is marked as bad
// and left out of what follows, or one mistake would show as several.
func compile(ctx context.Context, file string, content []byte, options *Options) (*document, error) {
	p := &problems{file: file}
	root := read(content, p)
	if root != nil && options.EndMark && !wholefile.IsEnded(content) {
		p.add(nil, `the file does not end with the line "...", so it may be cut off`)
	}
	if root == nil {
		return nil, p.err()
	}
	fileObject.check(root, p)
	if policies := root.get("policies"); policies == nil || policies.kind != kindObject {
		return nil, p.err()
	}
	d := &document{
		version:  Version{root.get("version").string(), hashOf(content)},
		policies: make(map[string]*policy), root: root, text: content,
	}
	ctx, cancel := context.WithTimeout(ctx, secretsTimeout)
	defer cancel()
	b := &builder{problems: p, ctx: ctx, options: options, secrets: make(map[string]string), strategies: make(map[*node]keyfuncs.Strategy), seen: make(map[string]declared)}
	scratch := core.NewMemory() // limits are checked as New checks them, and nothing is counted
	for _, m := range root.get("policies").fields {
		if m.value.kind != kindObject {
			continue
		}
		before := p.Count()
		made := b.policy(m.key, m.value, root.get("defaults"))
		if p.Count() == before && !m.value.bad {
			made.check(m.key, d, scratch, p, options.Validate)
		}
		d.policies[made.name], d.names = made, append(d.names, made.name)
	}
	return d, p.err()
}

// check adds the problems that only all of a policy together has.
// further is Options.Validate.
func (p *policy) check(at *node, d *document, scratch core.Store, found *problems, further func(string, []core.Limit) error) {
	d.policies[p.name] = p
	config, err := d.config(core.Config{Store: scratch}, p.name)
	if err == nil {
		err = compose.Validate(config)
	}
	if err == nil && further != nil {
		err = further(p.name, slices.Clone(p.limits))
	}
	if err != nil {
		found.add(at, "%s", unprefixed(err))
	}
}

// policy makes a policy of a node. Defaults fill in what it does not say.
func (b *builder) policy(name, n, defaults *node) *policy {
	p := &policy{name: name.text, parts: make(map[string]part)}
	setting := func(name string) *node {
		of := n.get(name)
		if of == nil {
			of = defaults.get(name)
		}
		if of != nil && of.bad {
			return nil
		}
		return of
	}
	s := &scope{builder: b, ip: setting("client_ip")}
	if reference := setting("key_secret"); reference != nil {
		if secret, ok := s.secretOf(reference); ok {
			s.secret = []byte(secret)
		}
	}
	s.settings(p, setting)
	shadow := setting("shadow").isTrue()
	s.chosen = namesIn(n.get("choices")) // not before: limits of a fallback can have the same names
	s.limits(p, n.get("limits"), nil, shadow)
	if groups := n.get("groups"); groups != nil {
		for _, g := range groups.fields {
			if when := g.value.get("when"); when == nil || when.bad {
				continue
			}
			when := s.condition(g.value.get("when"))
			s.limits(p, g.value.get("limits"), &when, shadow || g.value.get("shadow").isTrue())
		}
	}
	p.limits = s.choose(p, n.get("choices"))
	p.byPeer = s.byPeer
	if len(p.parts) == 0 && !n.bad {
		b.add(name, "a policy needs limits, or groups with limits")
	}
	return p
}

// limits adds limits to a policy.
func (s *scope) limits(p *policy, n *node, group *keyfuncs.Condition, shadow bool) {
	if n == nil {
		return
	}
	for _, m := range n.fields {
		if m.key.bad || m.value.bad {
			s.partsOf(m.value)
			p.parts[m.key.text] = part{bad: true}
			continue
		}
		l := s.limit(m.key.text, m.value, group, shadow)
		if _, twice := p.parts[m.key.text]; !twice {
			p.order = append(p.order, m.key.text)
			p.parts[m.key.text] = part{limit: l, node: m.value, shadow: shadow || m.value.get("shadow").isTrue()}
		}
		s.compare(p, m.key, m.value, l)
	}
}

// partsOf finds the problems of what a limit with another problem is made of, so that all are told at once.
func (s *scope) partsOf(n *node) {
	if by := n.get("by"); by != nil && !by.bad {
		s.key(by)
	}
	for _, name := range []string{"when", "unless"} {
		if of := n.get(name); of != nil && !of.bad {
			s.condition(of)
		}
	}
}

// compare adds a problem if a limit of this name is there already: within a policy always, in others
// if it is another limit. A store counts by the name of a limit, so two different ones would spoil each other's buckets.
func (s *scope) compare(p *policy, name, n *node, l core.Limit) {
	rule, err := l.Rule()
	if err != nil {
		return // a problem is there
	}
	this := declared{
		policy: p.name, line: name.line, rule: rule, keys: s.kindsOf(n),
		mode: indexOf(regionModes, n.get("regions").string()), overdraft: n.get("overdraft").integer(),
	}
	other, taken := s.seen[name.text]
	switch {
	case !taken:
		s.seen[name.text] = this
	case other.policy == p.name:
		s.add(name, "the policy has a limit of this name in line %d; give each its own", other.line)
	case other.rule != rule:
		s.add(name, "policy %s has another limit of this name in line %d, with other numbers; give each its own name, or both the same numbers to share what is used", other.policy, other.line)
	case other.keys != this.keys:
		s.add(name, "policy %s has another limit of this name in line %d, by another key; give each its own name, or both the same key to share what is used", other.policy, other.line)
	case other.mode != this.mode || other.overdraft != this.overdraft:
		s.add(name, "policy %s has another limit of this name in line %d, which counts otherwise over regions; give each its own name, or both the same regions and overdraft to share what is used", other.policy, other.line)
	}
}

// kindsOf returns what a limit's keys are made of, as a store compares it: a user and an address are never one key.
func (s *scope) kindsOf(n *node) string {
	kinds := s.key(n.get("by")).Kind()
	if fair := n.get("fair"); fair != nil {
		kinds += " divided among " + s.key(fair.get("by")).Kind()
		if within := fair.get("within"); within != nil {
			kinds += " and " + s.key(within).Kind()
		}
	}
	if once := n.get("once_per"); once != nil {
		kinds += " once per " + s.key(once.get("key")).Kind()
	}
	return kinds
}

// settings reads what a policy sets beside its limits.
func (s *scope) settings(p *policy, setting func(string) *node) {
	p.bypass = s.conditions(setting("bypass"))
	set := func(f func(*core.Config)) { p.apply = append(p.apply, f) }
	if n := setting("headers"); n != nil {
		all := core.Headers(0)
		for _, word := range n.texts() {
			all |= 1 << indexOf(dialects, word)
		}
		set(func(c *core.Config) { c.Headers = all })
	}
	if n := setting("headers_when"); n != nil {
		when := core.HeadersWhen(indexOf(headersWhens, n.text))
		set(func(c *core.Config) { c.HeadersWhen = when })
	}
	if n := setting("missing_key"); n != nil {
		answer := core.MissingKeyAnswer{Status: int(n.get("status").integer()), Challenge: n.get("challenge").string()}
		set(func(c *core.Config) { c.MissingKey = answer })
	}
	if n := setting("denial_texts"); n != nil {
		details := s.denialTexts(n)
		set(func(c *core.Config) { c.Details = details })
	}
	if n := setting("timeout"); n != nil {
		timeout := span(n)
		set(func(c *core.Config) { c.Timeout = timeout })
	}
	if n := setting("replicas"); n != nil {
		replicas := int(n.integer())
		set(func(c *core.Config) { c.Replicas = replicas })
	}
	if n := setting("fallback"); n != nil {
		var limits []core.Limit
		for _, m := range n.fields {
			limits = append(limits, s.limit(m.key.text, m.value, nil, false))
		}
		set(func(c *core.Config) { c.Fallback.Limits = limits })
	}
	if n := setting("max_waiting"); n != nil {
		most := n.integer()
		set(func(c *core.Config) { c.MaxWaiting = most })
	}
	if n := setting("max_waiting_per_key"); n != nil {
		most := n.integer()
		set(func(c *core.Config) { c.MaxWaitingPerKey = most })
	}
	if n := setting("silence"); n != nil {
		var kinds []core.Advice
		for _, word := range n.texts() {
			kinds = append(kinds, core.Advice(word))
		}
		set(func(c *core.Config) { c.Silence = append(c.Silence[:len(c.Silence):len(c.Silence)], kinds...) })
	}
}

// indexOf returns the place of a word that a shape has checked.
func indexOf(words []string, word string) uint8 {
	for i := range words {
		if words[i] == word {
			return uint8(i)
		}
	}
	return 0
}

// denialTexts returns functions that fill in texts.
func (s *scope) denialTexts(n *node) map[string]func(core.Decision) string {
	all := make(map[string]func(core.Decision) string, len(n.fields))
	for _, m := range n.fields {
		text := m.value.text
		rest := strings.NewReplacer("{limit}", "", "{retry_after}", "").Replace(text)
		if at := strings.IndexAny(rest, "{}"); at >= 0 {
			s.add(m.value, "%s: only {limit} and {retry_after} can stand in braces", spelling.Quote(rest[at:]))
		}
		all[m.key.text] = func(d core.Decision) string {
			limit := ""
			if b, ok := d.Binding(); ok {
				limit = b.Rule.Name
			}
			return strings.NewReplacer("{limit}", limit, "{retry_after}", strconv.FormatInt(d.RetryAfterSeconds(), 10)).Replace(text)
		}
	}
	return all
}

// hashOf returns the hash of a Version.
func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
