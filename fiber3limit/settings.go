// Code generated from fiberlimit/settings.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"sync/atomic"

	"github.com/gofiber/fiber/v3"
)

// settings are the settings of an application that decide how its requests are read.
type settings struct {
	app        *fiber.App
	exactNames bool   // names of headers keep the spelling in which they were sent
	streams    bool   // bodies are read when a handler reads them
	proxy      string // the header that c.IP reads, or ""
}

// settingsCache holds the settings of one application, the last that was asked for: a copy of the
// whole configuration is large, and most processes have one application.
type settingsCache struct{ last atomic.Pointer[settings] }

func (s *settingsCache) of(c fiber.Ctx) *settings {
	app := c.App()
	if last := s.last.Load(); last != nil && last.app == app {
		return last
	}
	config := app.Config()
	found := &settings{app, config.DisableHeaderNormalizing, config.StreamRequestBody, config.ProxyHeader}
	s.last.Store(found)
	return found
}
