package notify

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weblimit/weblimit/quota"
)

// event is a CloudEvent 1.0 in JSON:
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md
type event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Subject         string `json:"subject,omitempty"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	Data            any    `json:"data"`
}

// noticeData is the data of an event for a notice.
type noticeData struct {
	Limit       string    `json:"limit"`
	Tenant      string    `json:"tenant"`
	PeriodStart time.Time `json:"period_start"`
	PeriodEnd   time.Time `json:"period_end"`
	Level       int       `json:"level"`
	Used        int64     `json:"used"`
	Included    int64     `json:"included"`
	Hard        int64     `json:"hard"`
}

// usageData is the data of an event for an increment of usage.
type usageData struct {
	Value       int64     `json:"value"`
	Limit       string    `json:"limit"`
	Tenant      string    `json:"tenant"`
	PeriodStart time.Time `json:"period_start"`
	PeriodEnd   time.Time `json:"period_end"`
	Day         string    `json:"day"`
	DayTotal    int64     `json:"day_total"`
}

// The defaults of Source and Type.
const (
	defaultSource     = "weblimit"
	defaultNoticeType = "weblimit.quota.notice"
	defaultUsageType  = "weblimit.quota.usage"
)

// maxAttribute bounds the attributes that are configured, in bytes.
const maxAttribute = 256

// checkAttributes checks the attributes of a configuration.
func checkAttributes(source, kind string) error {
	if _, err := url.Parse(source); err != nil || !isAttribute(source) {
		return fmt.Errorf("weblimit: notify: Source must be a URI reference of at most %d bytes, got %q", maxAttribute, source)
	}
	if !isAttribute(kind) {
		return fmt.Errorf("weblimit: notify: Type must be 1 to %d printable bytes, got %q", maxAttribute, kind)
	}
	return nil
}

func isAttribute(s string) bool { return s != "" && len(s) <= maxAttribute && subjectOf(s) == s }

// subjectOf returns a subject that CloudEvents allow: a key as it is, or in hexadecimal if it
// has control characters. Different keys have different subjects, since the ledger writes keys
// that begin with a backslash in hexadecimal, too.
func subjectOf(key string) string {
	forbidden := func(r rune) bool { return unicode.IsControl(r) || r&0xFFFE == 0xFFFE || r >= 0xFDD0 && r <= 0xFDEF }
	if utf8.ValidString(key) && !strings.ContainsFunc(key, forbidden) {
		return key
	}
	return `\x` + hex.EncodeToString([]byte(key))
}

func timeOf(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func noticeEvent(n *quota.Notice, source, kind string) event {
	return event{
		SpecVersion: "1.0", ID: n.ID, Source: source, Type: kind, Subject: subjectOf(n.Tenant), Time: timeOf(n.At), DataContentType: "application/json",
		Data: noticeData{
			Limit: n.Limit, Tenant: n.Tenant, PeriodStart: n.Start.UTC(), PeriodEnd: n.End.UTC(),
			Level: n.Level, Used: n.Used, Included: n.Included, Hard: n.Hard,
		},
	}
}

func usageEvent(i *quota.Increment, source, kind, subject string) event {
	return event{
		SpecVersion: "1.0", ID: i.ID, Source: source, Type: kind, Subject: subjectOf(subject), Time: timeOf(i.At), DataContentType: "application/json",
		Data: usageData{
			Value: i.Value, Limit: i.Limit, Tenant: i.Tenant, PeriodStart: i.Start.UTC(), PeriodEnd: i.End.UTC(),
			Day: i.Day.UTC().Format(time.DateOnly), DayTotal: i.Total,
		},
	}
}

// permanent returns an error that is not to be tried again.
func permanent(err error) error { return &quota.DeliveryError{Permanent: true, Err: err} }
