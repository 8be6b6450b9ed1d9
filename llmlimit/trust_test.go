package llmlimit

import (
	"net/url"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestTrustedHosts(t *testing.T) {
	t.Parallel()
	m := must.Get(New(Config{Trust: []string{"vllm.internal:8000", "*.openai.azure.com", "plain.example", "Upper.Example", "[::1]:80"}}))(t)
	for address, want := range map[string]bool{
		"https://api.openai.com/v1":                            true,
		"https://API.OpenAI.com:443/v1":                        true,
		"https://api.anthropic.com":                            true,
		"https://generativelanguage.googleapis.com":            true,
		"https://aiplatform.googleapis.com":                    true,
		"https://us-central1-aiplatform.googleapis.com":        true,
		"https://bedrock-runtime.us-east-1.amazonaws.com":      true,
		"https://bedrock-runtime.us-gov-west-1.amazonaws.com":  true,
		"http://vllm.internal:8000/v1":                         true,
		"https://mine.openai.azure.com":                        true,
		"http://plain.example":                                 true,
		"https://plain.example:443":                            true,
		"https://upper.example":                                true,
		"http://[::1]":                                         true,
		"http://api.openai.com/v1":                             false, // anybody on the way can answer
		"https://api.openai.com:8443/v1":                       false,
		"https://api.openai.com.evil.example":                  false,
		"https://api.openai.com@evil.example":                  false,
		"https://evil.example/api.openai.com":                  false,
		"https://bedrock-runtime.s3.amazonaws.com":             false, // a bucket
		"https://bedrock-runtime.x.s3.us-east-1.amazonaws.com": false,
		"https://x.bedrock-runtime.us-east-1.amazonaws.com":    false,
		"https://evil.example-aiplatform.googleapis.com":       false,
		"https://-aiplatform.googleapis.com":                   false,
		"https://vllm.internal":                                false,
		"http://vllm.internal:8001":                            false,
		"http://plain.example:8080":                            false,
		"https://a.b.openai.azure.com":                         false,
		"https://openai.azure.com":                             false,
		"https://.openai.azure.com":                            false,
	} {
		check.Equal(t, address, m.trusts(must.Get(url.Parse(address))(t)), want)
	}
	check.Equal(t, "no URL", m.trusts(nil), false)
}

func TestConfigurationsThatCantWork(t *testing.T) {
	t.Parallel()
	for part, config := range map[string]Config{
		"Config.Peek must be from 1 to 67108864, got -1": {Peek: -1},
		"Config.Peek must be from 1 to":                  {Peek: maxPeek + 1},
		"Config.BytesPerToken must be from 1 to 64":      {BytesPerToken: 65},
		"Config.Output must be from 1 to 1000000000":     {Output: -1},
		"Config.Trust: \"\" is not a host":               {Trust: []string{""}},
		"\"https://a\" has no port behind its colon":     {Trust: []string{"https://a"}},
		"\"a:\" has no port behind its colon":            {Trust: []string{"a:"}},
		"\"a/b\" is not a host":                          {Trust: []string{"a/b"}},
		"\".example\" is not a host":                     {Trust: []string{".example"}},
	} {
		check.Fails(t, part, check.ErrorOf(New(config)), part)
	}
}
