package envoy

import (
	"slices"
	"strconv"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/policy"
)

// rules are the rules of all domains. They don't change.
type rules struct {
	domains map[string]*domain
	limits  []core.Limit // by rule.place
}

// domain is the rules of one domain.
type domain struct {
	level
	name      string
	at        place
	algorithm Algorithm
	override  int    // the place of the limit for overrides
	overrides string // and its name
}

// level is a list of descriptors.
type level struct {
	exact     map[pair]*node
	byKey     map[string]*node // without a value
	wildcards []*node          // in the order of the files
	written   map[pair]*node   // the same, by what stands in the files
}

type pair struct{ key, value string }

// node is a descriptor.
type node struct {
	level
	at         place
	key, value string
	parts      []string // of a wildcard, between its stars
	whole      bool     // the key has a star, too: parts are of key_value
	rule       *rule    // or nil

	share, valueToMetric bool
}

// rule is a rate_limit.
type rule struct {
	place     int // of its limit; not of one that is unlimited
	limit     *rls.RateLimitResponse_RateLimit
	algorithm Algorithm
	unlimited bool
	shadow    bool
	quota     bool
	detailed  bool
	replaces  []string
	metadata  *structpb.Struct
	path      string     // the name in statistics
	numbers   *core.Rule // of an override; nil for those of the limit
}

// cost returns what hits cost: nothing fits into a limit of 0.
func (r *rule) cost(hits uint64) int64 {
	if r.limit.GetRequestsPerUnit() == 0 {
		return mostHits
	}
	return int64(hits)
}

// compiler makes rules of files.
type compiler struct {
	*problems
	config *Config
	made   rules
	names  map[uint64]named // by Rule.ID
}

// named is a limit's name, and where the limit stands.
type named struct {
	name string
	at   place
}

// compile makes rules of files, or returns an Error.
func compile(files []policy.File, config *Config) (*rules, error) {
	p := new(problems)
	c := &compiler{problems: p, config: config, made: rules{domains: make(map[string]*domain)}, names: make(map[uint64]named)}
	for _, file := range files {
		d := parse(file.Name, file.Text, config.EndMark, p)
		if d != nil && d.domain != "" {
			c.document(d)
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	return &c.made, nil
}

func (c *compiler) document(d *document) {
	algorithm, said := c.config.Algorithms[d.domain]
	if !said {
		algorithm = c.config.Algorithm
	}
	if d.algorithm != nil {
		algorithm = *d.algorithm
	}
	into := c.made.domains[d.domain]
	switch {
	case into == nil:
		// The limits of a catalog are those that it was made with, so each domain has one for overrides, whose
		// numbers come with the request.
		into = &domain{name: d.domain, at: d.at, algorithm: algorithm, override: len(c.made.limits), overrides: limitName(d.domain, nil)}
		c.made.domains[d.domain] = into
		c.add(algorithm.limit(1, rls.RateLimitResponse_RateLimit_MINUTE), into.overrides, d.at)
	case !c.config.MergeDomains:
		c.problems.add(d.at, "the domain %s is in %s, too; one file has a domain, unless domains are merged (MERGE_DOMAIN_CONFIG)", spelling.Quote(d.domain), at(into.at))
		return
	case algorithm != into.algorithm:
		c.problems.add(d.at, "the domain %s counts by %s in %s; its files need the same comment", spelling.Quote(d.domain), into.algorithm, at(into.at))
	}
	c.level(&into.level, d.descriptors, nil, d.domain, into)
}

func at(p place) string {
	if p.line == 0 {
		return p.file
	}
	return p.file + ":" + strconv.Itoa(p.line)
}

// level adds descriptors to a level, to which some lead. path is that of the level in statistics.
func (c *compiler) level(into *level, all, way []*descriptor, path string, in *domain) {
	for _, d := range all {
		way := append(slices.Clip(way), d) // clipped, since the next descriptor of this level appends to the same
		n := &node{at: d.at, key: d.key, value: d.value, share: d.share, valueToMetric: d.valueToMetric}
		name := d.key
		if d.value != "" {
			name += "_" + d.value
		}
		if other := into.add(n); other != nil {
			c.problems.add(d.at, "the same key and value are in %s already", at(other.at))
			continue
		}
		if d.limit != nil {
			n.rule = c.rule(d, limitName(in.name, way), path+separator+name, in)
		}
		c.level(&n.level, d.below, way, path+separator+name, in)
	}
}

// add adds a node, or returns the one that is there already.
func (l *level) add(n *node) (there *node) {
	switch {
	case strings.Contains(n.key+n.value, "*"):
		if there = addTo(&l.written, pair{n.key, n.value}, n); there != nil {
			return there
		}
		if n.whole = strings.Contains(n.key, "*"); n.whole && n.value == "" {
			n.parts = strings.Split(n.key, "*")
		} else if n.whole {
			n.parts = strings.Split(n.key+"_"+n.value, "*")
		} else {
			n.parts = strings.Split(n.value, "*")
		}
		l.wildcards = append(l.wildcards, n)
		return nil
	case n.value == "":
		return addTo(&l.byKey, n.key, n)
	default:
		return addTo(&l.exact, pair{n.key, n.value}, n)
	}
}

// addTo adds a node to a map, which it makes for the first one, or returns the one that is there already. Most levels have
// no map of one kind, and files have ten thousand levels.
func addTo[K comparable](all *map[K]*node, key K, n *node) (there *node) {
	if there = (*all)[key]; there != nil {
		return there
	}
	if *all == nil {
		*all = make(map[K]*node)
	}
	(*all)[key] = n
	return nil
}

func (c *compiler) rule(d *descriptor, name, path string, in *domain) *rule {
	r := &rule{
		unlimited: d.limit.unlimited, shadow: d.shadow, quota: d.quota, detailed: d.detailed,
		replaces: d.limit.replaces, metadata: d.metadata, path: path, algorithm: in.algorithm,
		limit: &rls.RateLimitResponse_RateLimit{Name: d.limit.name, RequestsPerUnit: d.limit.requests, Unit: d.limit.unit},
	}
	if r.unlimited || d.limit.unit == 0 { // without a unit there is a problem already
		return r
	}
	l := in.algorithm.limit(d.limit.requests, d.limit.unit)
	if r.shadow || c.config.Shadow {
		l = l.Shadow()
	}
	r.place = len(c.made.limits)
	c.add(l, name, d.at)
	return r
}

// add adds a limit.
func (c *compiler) add(l core.Limit, name string, where place) {
	made, err := l.OnOutage(c.config.OnOutage).Named(name).Rule()
	if err != nil {
		c.problems.add(where, "%s", store.Reason(err))
		return
	}
	if other, found := c.names[made.ID()]; found {
		c.problems.add(where, "stores can't tell this limit from %s: their names, %s and %s, have one hash of 52 bits; change a key, a value or the domain", at(other.at), name, other.name)
		return
	}
	c.names[made.ID()] = named{name, where}
	c.made.limits = append(c.made.limits, l.OnOutage(c.config.OnOutage).Named(name))
}
