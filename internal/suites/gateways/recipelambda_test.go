package gateways

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// behindLambda is a REST API of API Gateway whose authorizer runs in node. What API Gateway does with the verdict is
// written here, after its documentation, by the gateway responses of template.yaml.
type behindLambda struct {
	limiter   *limiter
	node      *node
	file      string // the function
	event     string
	responses map[string]gatewayResponse // by ResponseType
}

type gatewayResponse struct {
	Type      string            `yaml:"ResponseType"`
	Status    string            `yaml:"StatusCode"`
	Header    map[string]string `yaml:"ResponseParameters"`
	Templates map[string]string `yaml:"ResponseTemplates"`
}

func (r *recipe) startLambda(t *testing.T, limits, away string) (front, *limiter) {
	t.Helper()
	var template struct {
		Resources map[string]struct {
			Type       string          `yaml:"Type"`
			Properties gatewayResponse `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	must.OK(t, yaml.Unmarshal([]byte(r.read(t, "template.yaml")), &template))
	l := startFor(t, limits)
	f := &behindLambda{
		limiter: l, file: filepath.Join(child.Dir(t), "authorizer.mjs"), responses: map[string]gatewayResponse{},
		node: startNode(t, "WEBLIMIT_URL=http://"+l.addr, "WEBLIMIT_TOKEN="+token, "WEBLIMIT_AWAY="+away),
	}
	// Without the bound of time: a limiter is away that a busy machine keeps from running.
	patient := strings.Replace(r.read(t, "authorizer.mjs"), "AbortSignal.timeout(500)", "AbortSignal.timeout(60000)", 1)
	must.OK(t, os.WriteFile(f.file, []byte(patient), 0o600))
	for _, resource := range template.Resources {
		if resource.Type == "AWS::ApiGateway::GatewayResponse" {
			f.responses[resource.Properties.Type] = resource.Properties
		}
	}
	f.event = string(must.Get(os.ReadFile("testdata/recipes/event.json"))(t))
	return f, f.limiter
}

func (f *behindLambda) request(t *testing.T, from, path string, header ...string) *answer {
	t.Helper()
	var out struct {
		Error   string
		Verdict struct {
			Document struct {
				Statement []struct{ Effect, Resource string }
			} `json:"policyDocument"`
			Context map[string]string
		}
	}
	event := f.describe(t, from, path, header)
	f.node.run(t, map[string]any{"file": f.file, "event": event}, &out)
	switch {
	case out.Error == "Unauthorized":
		return responded(401, "", nil)
	case out.Error != "":
		a := f.respond(t, "AUTHORIZER_FAILURE", nil)
		check.Equal(t, "the other failure of an authorizer", f.respond(t, "AUTHORIZER_CONFIGURATION_ERROR", nil).body, a.body)
		return a
	case out.Verdict.Document.Statement[0].Resource != event["methodArn"]:
		t.Errorf("the verdict is about %s", out.Verdict.Document.Statement[0].Resource)
	}
	if out.Verdict.Document.Statement[0].Effect == "Allow" {
		return responded(200, "served", nil) // RateLimit is in the context, for the integration
	}
	return f.respond(t, "ACCESS_DENIED", out.Verdict.Context)
}

// describe returns the event of a request.
func (f *behindLambda) describe(t *testing.T, from, path string, header []string) map[string]any {
	t.Helper()
	var event map[string]any
	must.OK(t, json.Unmarshal([]byte(strings.ReplaceAll(f.event, shown, from)), &event))
	path, query, _ := strings.Cut(path, "?")
	event["path"] = path
	if query != "" {
		name, value, _ := strings.Cut(query, "=")
		event["multiValueQueryStringParameters"] = map[string][]string{name: {value}}
	}
	lines := event["multiValueHeaders"].(map[string]any)
	for pair := range slices.Chunk(header, 2) {
		values := []string{pair[1]}
		if pair[0] == "X-Forwarded-For" {
			values = []string{pair[1] + ", " + from} // API Gateway appends
		}
		lines[pair[0]] = values
	}
	return event
}

// respond makes a gateway response. Values are in quotes, or of the authorizer's context.
func (f *behindLambda) respond(t *testing.T, kind string, of map[string]string) *answer {
	t.Helper()
	response, header := f.responses[kind], http.Header{}
	for name, value := range response.Header {
		name = strings.TrimPrefix(name, "gatewayresponse.header.")
		if key, is := strings.CutPrefix(value, "context.authorizer."); is {
			if _, known := of[key]; !known {
				t.Errorf("the authorizer's context has no %s", key)
			}
			value = of[key]
		}
		header.Set(name, strings.Trim(value, "'"))
	}
	status := map[string]int{"429": 429, "503": 503}[response.Status]
	return responded(status, response.Templates["application/json"], header)
}

// A request that lacks a key which the policy asks for is a 401, and not one more of 429.
func TestLambdaWithoutAKey(t *testing.T) {
	t.Parallel()
	r := recipes[len(recipes)-1]
	f, _ := r.start(r, t, "policies: {api: {limits: {key: {limit: 9/day, by: api_key, on_missing_key: deny}}}}\n", "closed")
	check.Equal(t, "without a key", f.request(t, newClient(), "/things").StatusCode, http.StatusUnauthorized)
	check.Equal(t, "with a key", f.request(t, newClient(), "/things", "X-Api-Key", "alpha").StatusCode, http.StatusOK)
}
