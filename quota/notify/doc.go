// Package notify sends what a quota.Book has to tell over HTTP, as CloudEvents 1.0 in JSON:
// notices to a webhook, and usage to a billing engine that ingests CloudEvents.
//
//	hook, err := notify.NewWebhook(notify.WebhookConfig{URL: "https://example.com/hook", Secrets: []string{secret}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	book, err := quota.Open(ctx, pool, quota.Config{
//		Store:   redisstore.New(rdb),
//		Notices: []quota.Channel{{Name: "webhook", Deliver: hook.Deliver}},
//	})
//
// The book decides when to send and what to repeat. Here one attempt is made. It follows no
// redirect, uses no proxy, verifies TLS, and reads a few bytes of the answer at most, whatever
// the receiver sends.
//
// docs/bill/notices.md shows how receivers verify what they get.
package notify
