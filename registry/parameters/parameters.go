// Package parameters reads what the URL of a registry says after the question mark.
package parameters

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// Parameter reads the values of one parameter into settings.
type Parameter[S any] struct {
	take     func(*S, []string) error
	repeated bool
}

// Read reads the parameters of a URL.
func Read[S any](into *S, u *url.URL, known map[string]Parameter[S]) error {
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("its parameters cannot be read: %w", err)
	}
	for key, values := range given {
		p, is := known[key]
		if !is {
			return unknown(key, known)
		}
		if len(values) > 1 && !p.repeated {
			return errors.New(key + " is given twice")
		}
		if err := p.take(into, values); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func unknown[S any](key string, known map[string]Parameter[S]) error {
	all := make([]string, 0, len(known))
	for name := range known {
		all = append(all, name)
	}
	slices.Sort(all)
	return fmt.Errorf("there is no parameter %s: %s", key, nearest.Hint(key, all, "there are "))
}

// Func is a parameter that is given once.
func Func[S any](take func(*S, string) error) Parameter[S] {
	return Parameter[S]{take: func(s *S, values []string) error { return take(s, values[0]) }}
}

// Text is one that may say anything.
func Text[S any](at func(*S) *string) Parameter[S] {
	return Func(func(s *S, value string) error {
		*at(s) = value
		return nil
	})
}

// List is one that may be given several times.
func List[S any](at func(*S) *[]string) Parameter[S] {
	return Parameter[S]{repeated: true, take: func(s *S, values []string) error {
		*at(s) = values
		return nil
	}}
}

// YesOrNo is true or false.
func YesOrNo[S any](take func(s *S, yes bool)) Parameter[S] {
	return Func(func(s *S, value string) error {
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", value)
		}
		take(s, yes)
		return nil
	})
}

// Number is one from least to most.
func Number[S any](least, most int, take func(s *S, n int)) Parameter[S] {
	return Func(func(s *S, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q is no number from %d to %d", value, least, most)
		}
		take(s, n)
		return nil
	})
}

// Duration is one from least to most.
func Duration[S any](least, most time.Duration, at func(*S) *time.Duration) Parameter[S] {
	return Func(func(s *S, value string) error {
		d, err := time.ParseDuration(value)
		if err != nil || d < least || d > most {
			return fmt.Errorf("%q is no time from %s to %s", value, short(least), short(most))
		}
		*at(s) = d
		return nil
	})
}

// short leaves out what is zero: 1m, not 1m0s.
func short(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return d.String()
}
