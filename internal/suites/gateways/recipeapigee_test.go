package gateways

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// apigeeFlow is deploy/gateways/apigee/policies.xml, as far as it is for what the flow does.
type apigeeFlow struct {
	Map struct {
		Name string `xml:"name,attr"`
		Get  struct {
			To string `xml:"assignTo,attr"`
		}
	} `xml:"KeyValueMapOperations"`
	Scripts []struct {
		Name string `xml:"name,attr"`
		File string `xml:"ResourceURL"`
	} `xml:"Javascript"`
	Callout struct {
		Name string `xml:"name,attr"`
		message
		Answer string `xml:"Response"`
		URL    string `xml:"HTTPTargetConnection>URL"`
	} `xml:"ServiceCallout"`
	Faults []struct {
		Name string `xml:"name,attr"`
		message
	} `xml:"RaiseFault"`
	Told struct {
		message
	} `xml:"AssignMessage"`
	Steps []apigeeStep `xml:"PreFlow>Request>Step"`
	After []apigeeStep `xml:"PreFlow>Response>Step"`
}

type apigeeStep struct{ Name, Condition string }

// message is what a policy sets, wherever it has it.
type message struct {
	Question apigeeSet `xml:"Request>Set"`
	Fault    apigeeSet `xml:"FaultResponse>Set"`
	Set      apigeeSet
}

type apigeeSet struct {
	Verb, StatusCode string
	Headers          []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:",chardata"`
	} `xml:"Headers>Header"`
	Payload struct {
		Type string `xml:"contentType,attr"`
		Text string `xml:",chardata"`
	}
}

// behindApigee is an API proxy of Apigee whose scripts run in node. The rest of the flow is done here: variables in
// braces, conditions, the callout and the fault.
type behindApigee struct {
	recipe  *recipe
	flow    apigeeFlow
	limiter *limiter
	node    *node
	away    string
}

func (r *recipe) startApigee(t *testing.T, limits, away string) (front, *limiter) {
	t.Helper()
	f := &behindApigee{recipe: r, limiter: startFor(t, limits), node: startNode(t), away: away}
	must.OK(t, xml.Unmarshal([]byte(r.read(t, "policies.xml")), &f.flow))
	return f, f.limiter
}

func (f *behindApigee) request(t *testing.T, from, path string, header ...string) *answer {
	t.Helper()
	variables := map[string]string{"request.verb": "GET", "request.uri": path}
	addresses := ""
	for pair := range slices.Chunk(header, 2) {
		if pair[0] == "X-Forwarded-For" {
			addresses = pair[1] + ", "
			continue
		}
		setHeader(variables, pair[0], pair[1])
	}
	setHeader(variables, "X-Forwarded-For", addresses+from+", 10.0.0.9") // two load balancers append
	for _, step := range f.flow.Steps {
		if !holds(t, step.Condition, variables) {
			continue
		}
		if a := f.step(t, step.Name, variables); a != nil {
			return a
		}
	}
	told := http.Header{}
	for _, step := range f.flow.After {
		if holds(t, step.Condition, variables) {
			told = f.flow.Told.Set.headers(variables)
		}
	}
	return responded(200, "served", told)
}

// step runs a policy, and returns a response if it is the last.
func (f *behindApigee) step(t *testing.T, name string, variables map[string]string) *answer {
	t.Helper()
	if name == f.flow.Map.Name {
		variables[f.flow.Map.Get.To] = token
		return nil
	}
	for _, script := range f.flow.Scripts {
		if script.Name == name {
			text := chosen(f.recipe.read(t, strings.TrimPrefix(script.File, "jsc://")), f.away, `"weblimit.decision", "away"`, `"weblimit.decision", "allowed"`)
			var out struct{ Variables map[string]string }
			f.node.run(t, map[string]any{"script": text, "variables": variables}, &out)
			for name, value := range out.Variables {
				variables[name] = value
			}
			return nil
		}
	}
	for _, fault := range f.flow.Faults {
		if fault.Name == name {
			h := fault.Fault.headers(variables)
			h.Set("Content-Type", fault.Fault.Payload.Type)
			return responded(must.Get(strconv.Atoi(filled(fault.Fault.StatusCode, variables)))(t), filled(fault.Fault.Payload.Text, variables), h)
		}
	}
	if name != f.flow.Callout.Name {
		t.Fatalf("there is no policy %s", name)
	}
	f.callout(t, variables)
	return nil
}

// callout asks the limiter. Without an answer of 200 there is none, and the flow goes on.
func (f *behindApigee) callout(t *testing.T, variables map[string]string) {
	t.Helper()
	set := f.flow.Callout.Question
	url := "http://" + f.limiter.addr + pathIn(f.flow.Callout.URL)
	q := must.Get(http.NewRequestWithContext(t.Context(), set.Verb, url, strings.NewReader(filled(set.Payload.Text, variables))))(t)
	q.Header = set.headers(variables)
	q.Header.Set("Content-Type", set.Payload.Type)
	q.Header.Set("User-Agent", "")
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(q)
	if err != nil {
		return
	}
	defer res.Body.Close()
	body := must.Get(io.ReadAll(res.Body))(t)
	if res.StatusCode == http.StatusOK {
		variables[f.flow.Callout.Answer+".content"] = string(body)
	}
}

// setHeader has the variables of a header, whose values Apigee divides at commas.
func setHeader(variables map[string]string, name, value string) {
	values := strings.Split(value, ", ")
	variables["request.header."+name+".values.count"] = strconv.Itoa(len(values))
	for i, value := range values {
		variables[fmt.Sprintf("request.header.%s.%d", name, i+1)] = value
	}
}

func (s apigeeSet) headers(variables map[string]string) http.Header {
	h := http.Header{}
	for _, header := range s.Headers {
		h.Set(header.Name, filled(header.Value, variables))
	}
	return h
}

var inBraces = regexp.MustCompile(`\{[a-z._]+\}`)

// filled puts the values of variables into a text.
func filled(text string, variables map[string]string) string {
	return inBraces.ReplaceAllStringFunc(strings.TrimSpace(text), func(name string) string { return variables[strings.Trim(name, "{}")] })
}

var (
	isEqual = regexp.MustCompile(`^([a-z._]+) = "(.*)"$`)
	isThere = regexp.MustCompile(`^([a-z._]+) != null and ([a-z._]+) != ""$`)
)

// holds reports whether a condition of the flow holds.
func holds(t *testing.T, condition string, variables map[string]string) bool {
	t.Helper()
	if condition == "" {
		return true
	}
	if c := isEqual.FindStringSubmatch(condition); c != nil {
		return variables[c[1]] == c[2]
	}
	if c := isThere.FindStringSubmatch(condition); c != nil && c[1] == c[2] {
		return variables[c[1]] != ""
	}
	t.Fatalf("a condition that this test can't read: %s", condition)
	return false
}
