package llmlimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxPriceFile bounds a file of prices, in bytes.
	maxPriceFile = 1 << 20
	// maxPrices bounds its models: a request of an unknown model is compared with all patterns.
	maxPrices = 1000
	// maxStars bounds the * of a pattern.
	maxStars = 4
)

// ReadPrices reads a file of prices:
//
//	{
//	  "currency": "USD",
//	  "models": [
//	    {"model": "gpt-4o-mini*", "input": 150000, "cache_read": 75000, "output": 600000, "max_output": 16384},
//	    {"model": "claude-sonnet-4-*", "input": 3000000, "cache_read": 300000, "cache_write": 3750000, "cache_write_hour": 6000000, "output": 15000000}
//	  ]
//	}
//
// Prices are whole micro-units of the currency for a million tokens, from 0 to [MaxPrice]: $0.15 is 150000. input and
// output are required. cache_read and cache_write are as input, and cache_write_hour as cache_write, unless they are there.
// max_output is from 1 to [MaxTokens].
//
// A file of more than 1 MiB or 1,000 models is an error, and so is a field that is unknown or there twice, a number with a
// fraction, or a model that is there twice. The error says which model it is about.
func ReadPrices(r io.Reader) (*Prices, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPriceFile+1))
	if err != nil {
		return nil, fmt.Errorf("weblimit: prices: %w", err)
	}
	if len(text) > maxPriceFile {
		return nil, fmt.Errorf("weblimit: prices: more than %d bytes", maxPriceFile)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("weblimit: prices: not UTF-8")
	}
	f := priceFile{decoder: json.NewDecoder(bytes.NewReader(text))}
	f.decoder.UseNumber()
	if err := f.read(); err != nil {
		return nil, fmt.Errorf("weblimit: prices: %w", err)
	}
	return newPrices(f.currency, f.models), nil
}

// priceFile reads a file token by token, so that it notices what is there twice.
type priceFile struct {
	decoder  *json.Decoder
	currency string
	models   []Price
	seen     map[string]bool
}

func (f *priceFile) read() error {
	f.seen = map[string]bool{}
	err := f.object(func(name string) error {
		switch name {
		case "currency":
			return f.readCurrency()
		case "models":
			return f.readModels()
		}
		return fmt.Errorf("unknown field %.40q, want currency and models", name)
	})
	switch {
	case err != nil:
		return err
	case f.currency == "":
		return errors.New("currency is missing")
	case len(f.models) == 0:
		return errors.New("models is missing or empty")
	}
	if _, err := f.decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the prices")
	}
	return nil
}

// object reads an object, and calls each for its fields, which must read the value.
func (f *priceFile) object(each func(name string) error) error {
	if err := f.delim('{', "an object"); err != nil {
		return err
	}
	var seen []string
	for f.decoder.More() {
		token, err := f.token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if slices.Contains(seen, name) {
			return fmt.Errorf("the field %.40q is there twice", name)
		}
		if err := each(name); err != nil {
			return err
		}
		seen = append(seen, name)
	}
	_, err := f.token()
	return err
}

func (f *priceFile) token() (json.Token, error) {
	token, err := f.decoder.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	return token, err
}

func (f *priceFile) delim(want json.Delim, what string) error {
	token, err := f.token()
	if err == nil && token != want {
		return fmt.Errorf("want %s", what)
	}
	return err
}

func (f *priceFile) readCurrency() error {
	token, err := f.token()
	if err != nil {
		return err
	}
	text, ok := token.(string)
	if !ok || text == "" || len(text) > 16 || strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }) {
		return errors.New("currency: want a name of 1 to 16 characters, such as USD")
	}
	f.currency = text
	return nil
}

func (f *priceFile) readModels() error {
	if err := f.delim('[', "an array of models"); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	for f.decoder.More() {
		if len(f.models) == maxPrices {
			return fmt.Errorf("more than %d models", maxPrices)
		}
		price, err := f.readModel()
		if err == nil && f.seen[price.Model] {
			err = errors.New("the model is there twice")
		}
		if err != nil {
			if price.Model != "" {
				return fmt.Errorf("model %d, %q: %w", len(f.models)+1, price.Model, err)
			}
			return fmt.Errorf("model %d: %w", len(f.models)+1, err)
		}
		f.seen[price.Model] = true
		f.models = append(f.models, price)
	}
	_, err := f.token()
	return err
}

// unset is a price that is not there.
const unset = math.MinInt64

func (f *priceFile) readModel() (Price, error) {
	p := Price{Input: unset, CacheRead: unset, CacheWrite: unset, CacheWriteHour: unset, Output: unset}
	err := f.object(func(name string) error {
		switch name {
		case "model":
			return f.readName(&p.Model)
		case "input":
			return f.number(name, &p.Input, 0, MaxPrice)
		case "cache_read":
			return f.number(name, &p.CacheRead, 0, MaxPrice)
		case "cache_write":
			return f.number(name, &p.CacheWrite, 0, MaxPrice)
		case "cache_write_hour":
			return f.number(name, &p.CacheWriteHour, 0, MaxPrice)
		case "output":
			return f.number(name, &p.Output, 0, MaxPrice)
		case "max_output":
			return f.number(name, &p.MaxOutput, 1, MaxTokens)
		}
		return fmt.Errorf("unknown field %.40q, want model, input, cache_read, cache_write, cache_write_hour, output and max_output", name)
	})
	switch {
	case err != nil:
		return p, err
	case p.Model == "":
		return p, errors.New("model is missing")
	case p.Input == unset:
		return p, errors.New("input is missing")
	case p.Output == unset:
		return p, errors.New("output is missing")
	}
	for _, of := range [...]struct{ price, as *int64 }{{&p.CacheRead, &p.Input}, {&p.CacheWrite, &p.Input}, {&p.CacheWriteHour, &p.CacheWrite}} {
		if *of.price == unset {
			*of.price = *of.as
		}
	}
	return p, nil
}

func (f *priceFile) readName(into *string) error {
	token, err := f.token()
	if err != nil {
		return err
	}
	text, ok := token.(string)
	switch {
	case !ok || text == "" || len(text) > maxModel:
		return fmt.Errorf("model: want a name of 1 to %d bytes", maxModel)
	case strings.Count(text, "*") > maxStars:
		return fmt.Errorf("model: more than %d *", maxStars)
	case strings.Contains(text, "**"):
		return errors.New("model: ** is the same as *")
	}
	*into = text
	return nil
}

func (f *priceFile) number(name string, into *int64, least, most int64) error {
	token, err := f.token()
	if err != nil {
		return err
	}
	if digits, ok := token.(json.Number); ok {
		if n, err := digits.Int64(); err == nil && n >= least && n <= most {
			*into = n
			return nil
		}
	}
	return fmt.Errorf("%s: want a whole number from %d to %d, in micro-units for a million tokens", name, least, most)
}
