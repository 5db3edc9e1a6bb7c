// Package truth tests that what the database says of proxies is so, whatever dies: several servers
// and discoveries, a real Postgres, and simulated proxies that know what they have accepted.
//
// A test has a mesh whose every revision leaves marks (marks_test.go), members that come, go,
// refuse and are silent (member_test.go), and storms in which all of that happens at once and parts
// are killed (storm_test.go). An observer reads what the database says, all the time
// (observer_test.go), and compares it when all is quiet (quiet_test.go). What else the database says
// of proxies is one more of its claims (claims_test.go).
package truth
