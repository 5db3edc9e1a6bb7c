package schema

// checks are the rules that no jsonpath can express: they return what is wrong with an object in its normal form, with paths from the object
// on. The database has the same in SQL.
var checks = map[string]func(object, meta map[string]any) []Problem{}
