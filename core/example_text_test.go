package core_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

func ExampleParseLimit() {
	for _, text := range []string{"100/minute burst 20", "5 per 15 minutes", "100_000/month Europe/Berlin", "100/mintue"} {
		limit, err := core.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit)
	}
	// Output:
	// 100/minute burst 20
	// 5/15m
	// 100000/month Europe/Berlin
	// weblimit: ParseLimit: "100/mintue": unknown unit "mintue"; did you mean "minute"?
}

// The numbers come from the environment, and what depends on requests from code.
func ExampleMustParseLimit() {
	_ = os.Setenv("LOGIN_LIMIT", "5/15m log")
	login := core.MustParseLimit(os.Getenv("LOGIN_LIMIT")).By(keyfuncs.ClientIP()).Named("login")
	rule, _ := login.Rule()
	fmt.Println(rule.Name, rule.Algorithm, rule.Quota, rule.Window)
	// Output: login sliding log 5 15m0s
}

// A flag replaces the numbers of a limit, and keeps its keys and its name.
func ExampleLimit_UnmarshalText() {
	limit := core.PerMinute(100).By(keyfuncs.ClientIP()).Named("api")
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.TextVar(&limit, "limit", limit, "requests per client")
	_ = flags.Parse([]string{"-limit", "300/minute burst 50"})
	rule, _ := limit.Rule()
	fmt.Println(rule.Name, limit)
	// Output: api 300/minute burst 50
}

func ExampleLimit_MarshalText() {
	var config struct{ Plans map[string]core.Limit }
	_ = json.Unmarshal([]byte(`{"Plans": {"free": "60/hour", "pro": "10/s burst 100"}}`), &config)
	text, _ := json.Marshal(config.Plans)
	fmt.Println(string(text))
	// Output: {"free":"60/hour","pro":"10/second burst 100"}
}

func ExampleLimit_String() {
	fmt.Println(core.PerDay(1000).FixedWindow().By(keyfuncs.ClientIP()))
	// Output: 1000/day fixed
}
