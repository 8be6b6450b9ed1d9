package models

import (
	"errors"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func openAIInGo(t *testing.T, url string) told {
	t.Helper()
	sent := &counter{}
	client := openai.NewClient(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("demo"), option.WithHTTPClient(&http.Client{Transport: sent}))
	params := func(text string, most int64) openai.ChatCompletionNewParams {
		p := openai.ChatCompletionNewParams{Model: "gpt-4o-mini", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
		if most == 0 { // which has tokens of its own
			p.Model = "gpt-4o"
		} else {
			p.MaxTokens = openai.Int(most)
		}
		return p
	}
	stream := func(text string, most int64) (said string, used int64, err error) {
		s := client.Chat.Completions.NewStreaming(t.Context(), params(text, most))
		defer func() { _ = s.Close() }()
		for s.Next() {
			c := s.Current()
			for _, choice := range c.Choices {
				said += choice.Delta.Content
			}
			used = max(used, c.Usage.TotalTokens)
		}
		return said, used, s.Err()
	}
	ask := func(text string, most int64) (left string, err error) {
		var res *http.Response
		_, err = client.Chat.Completions.New(t.Context(), params(text, most), option.WithResponseInto(&res))
		if res != nil {
			left = res.Header.Get("X-Ratelimit-Remaining-Tokens")
		}
		return left, err
	}
	return try(t, sent, stream, ask, func(err error) (status int, code string) {
		if failed := (*openai.Error)(nil); errors.As(err, &failed) {
			return failed.StatusCode, failed.Code
		}
		return 0, ""
	})
}
