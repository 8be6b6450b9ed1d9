package llmlimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

const (
	defaultPeek   = 128 << 10
	maxPeek       = 64 << 20
	defaultOutput = 4096
	maxPerToken   = 64
)

// Config configures a [Meter]. Its zero value is ready to use for limits without money.
type Config struct {
	// Prices are what models cost, from [ReadPrices]. Limits of [Money] need them. They are also the models that are
	// known: requests of all others have the Name [Other], and cost as much as the dearest. Defaults to none.
	Prices *Prices

	// API says whose form a request has. Defaults to [APIOf] of its path.
	API func(*http.Request) API

	// Peek is how many bytes of a request's body are read, and kept until they are passed on, to find its model. Longer
	// bodies are of an unknown model. Images in bodies need more than the default of 128 KiB; 64 MiB is the most.
	Peek int

	// Output is the estimate of output tokens for requests that name no maximum, of a model of which none is known.
	// Defaults to 4096.
	Output int64

	// BytesPerToken is how many bytes of a request's body are estimated as one input token, from 1 to 64. Defaults to
	// 1, a bound that no text exceeds; with 4, a usual figure of English, some requests cost more than was estimated,
	// and are charged that afterwards.
	BytesPerToken int

	// Trust are hosts whose answers can lower a charge below its estimate, such as "vllm.internal:8000" or
	// "*.openai.azure.com". A host without a port has that of its scheme; * is one label. The hosts of OpenAI, Anthropic,
	// Gemini and Bedrock are trusted over https in any case. Defaults to no others.
	Trust []string

	// EndAtEstimate ends a stream behind the event with which its output exceeds the estimate, with an error as the
	// provider writes it. Until usage is told, output is estimated by the text that has passed. Defaults to false: what
	// exceeds the estimate is charged, and passes.
	EndAtEstimate bool

	// AskForUsage has streams of OpenAI's chat completions tell their usage: it adds stream_options to requests for a
	// stream that have none, so that the client gets one further event, with empty choices. Defaults to false: such
	// streams tell nothing, and cost their estimate.
	AskForUsage bool

	// Observe is told what each call was charged, once, when it is known. It may be called concurrently, must be fast
	// and must not panic. Defaults to nothing.
	Observe func(context.Context, Spent)
}

// Meter reads requests to language models and their answers, and charges what was used to the limits that it has made. It
// is safe for concurrent use.
type Meter struct {
	config  Config
	trust   []host
	unread  Call // of requests that ReadRequest has not read
	mu      sync.Mutex
	budgets atomic.Pointer[[]budget]
}

// budget is a limit that a meter has made.
type budget struct {
	name    string
	measure Measure
}

// New returns a meter, or what is wrong with its configuration.
func New(config Config) (*Meter, error) {
	c := &config
	if c.API == nil {
		c.API = func(r *http.Request) API { return APIOf(r.URL.EscapedPath()) }
	}
	for _, n := range []struct {
		name      string
		value     *int
		otherwise int
		most      int
	}{{"Peek", &c.Peek, defaultPeek, maxPeek}, {"BytesPerToken", &c.BytesPerToken, 1, maxPerToken}} {
		if *n.value == 0 {
			*n.value = n.otherwise
		}
		if *n.value < 1 || *n.value > n.most {
			return nil, fmt.Errorf("weblimit: llmlimit: Config.%s must be from 1 to %d, got %d", n.name, n.most, *n.value)
		}
	}
	if c.Output == 0 {
		c.Output = defaultOutput
	}
	if c.Output < 1 || c.Output > MaxTokens {
		return nil, fmt.Errorf("weblimit: llmlimit: Config.Output must be from 1 to %d, got %d", MaxTokens, c.Output)
	}
	m := &Meter{unread: Call{Name: Other, Input: MaxTokens, Output: MaxTokens, price: c.Prices.Dearest()}}
	for _, text := range c.Trust {
		h, err := parseHost(text)
		if err != nil {
			return nil, fmt.Errorf("weblimit: llmlimit: Config.Trust: %w", err)
		}
		m.trust = append(m.trust, h)
	}
	m.config = config
	m.budgets.Store(&[]budget{})
	return m, nil
}

// Must returns a meter, or panics. It is for configurations that are part of the program.
func Must(m *Meter, err error) *Meter {
	if err != nil {
		panic(err)
	}
	return m
}

// Limit returns l with a name, and has the meter charge it by a measure: the estimate first, and what was used when that
// is known. Limits of Requests cost one unit, and are named for the headers only.
//
//	m.Limit("tokens", llmlimit.Tokens, core.PerMinute(100_000).By(user))
//
// A request costs MaxTokens, so that it does not pass, where ReadRequest has not read it. An estimate above the burst never
// passes: where limits are small, add core.Limit.UpToBurst.
//
// It panics if the measure is unknown, or Money without prices, or if the name has another measure already. So call it
// at start-up.
func (m *Meter) Limit(name string, measure Measure, l core.Limit) core.Limit {
	if err := m.add(budget{name, measure}); err != nil {
		panic(err)
	}
	if measure == Requests {
		return l.Named(name)
	}
	return l.Named(name).EstimateBy(func(r keyfuncs.Request) int64 { return m.callOf(r).estimate(measure) })
}

func (m *Meter) add(b budget) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case b.measure >= measures:
		return errors.New("weblimit: llmlimit: Limit: unknown measure")
	case b.measure == Money && m.config.Prices == nil:
		return fmt.Errorf("weblimit: llmlimit: Limit: %q counts money, and the meter has no prices", b.name)
	}
	before := *m.budgets.Load()
	for _, other := range before {
		if other == b {
			return nil
		}
		if other.name == b.name {
			return fmt.Errorf("weblimit: llmlimit: Limit: %q counts %s already", b.name, other.measure)
		}
	}
	after := append(append([]budget(nil), before...), b)
	m.budgets.Store(&after)
	return nil
}

// measure returns the measure of a limit, by its name.
func (m *Meter) measure(name string) (Measure, bool) {
	for _, b := range *m.budgets.Load() {
		if b.name == name {
			return b.measure, true
		}
	}
	return 0, false
}

// estimate returns what a call can cost at most, as far as its request tells.
func (c *Call) estimate(measure Measure) int64 {
	return c.cost(measure, Usage{Input: c.Input, Output: c.Output}, c.price.most())
}

// cost returns what a usage costs by a measure.
func (c *Call) cost(measure Measure, u Usage, price Price) int64 {
	switch measure {
	case Tokens:
		return u.Total()
	case InputTokens:
		return u.Input
	case OutputTokens:
		return u.Output
	case Money:
		return price.Cost(u)
	}
	return 1
}
