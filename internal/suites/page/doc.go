// Package page tests the page of inspect in a real browser: Debian's Chromium, headless, by the
// DevTools protocol.
//
// Without chromium the tests skip, with CI=true they fail. axe-core is an npm package:
// scripts/install-browser installs both.
//
//	go test -run TestScreenshots -shots /tmp/shots .    # pictures at two widths, light and dark
//	make screenshots                                    # those of the documents
package page
