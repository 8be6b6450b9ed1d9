// Code generated from fiberlimit/usage.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/usage"
)

// Usage returns a handler that tells each client its own limits, as JSON: see package usage. Mount it behind what
// authenticates clients, and behind a limit of its own. It panics if a limiter of own has a key or condition of
// another framework, and in a process of Prefork as [New] does.
func Usage(own *usage.Usage) fiber.Handler {
	for _, limiter := range own.Limiters() {
		if asked := adapter.New(limiter, "fiber", "fiber.Ctx"); fiber.IsChild() && asked.InProcess() {
			panic("weblimit: fiber3limit.Usage: " + inMemory)
		}
	}
	var (
		known routes
		cache settingsCache
	)
	return func(c fiber.Ctx) error {
		in := acquire(c, &known, cache.of(c))
		answer := own.Answer(in)
		in.release()
		for name, values := range answer.Header {
			header{&c.Response().Header}.Set(name, values[0])
		}
		c.Response().SetStatusCode(answer.Status)
		c.Response().SetBody(answer.Body)
		return nil
	}
}
