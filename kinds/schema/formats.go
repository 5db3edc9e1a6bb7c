package schema

import (
	"strings"
	"unicode/utf8"
)

// formatFunctions report whether a string has a syntax that no pattern can express. The database
// has the same functions in SQL.
var formatFunctions = map[string]func(string) bool{
	"address": isAddress,
	"cel":     isCEL,
	"cidr":    isCIDR,
	"ip":      isIP,
	"jwks":    isJWKS,
	"re2":     isRE2,
}

// reason explains why a string is not of the format.
func (f *Format) reason(s string) (reason, hint string) {
	if f == nil || f.fits(s) {
		return "", ""
	}
	return strings.ReplaceAll(f.Reason, "{value}", s), strings.ReplaceAll(f.Hint, "{value}", s)
}

func (f *Format) fits(s string) bool {
	return (f.Max == nil || utf8.RuneCountInString(s) <= *f.Max) &&
		(f.Pattern == "" || compiled(f.Pattern).MatchString(s)) &&
		(f.Unlike == "" || !compiled(f.Unlike).MatchString(s)) &&
		(f.Long == "" || len(s) < 64 || !compiled(f.Long).MatchString(s)) &&
		(f.Function == "" || formatFunctions[f.Function](s)) ||
		f.or != nil && f.or.fits(s)
}
