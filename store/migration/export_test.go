package migration

// What tests of turns need.
var (
	ConnectToMigrate = connectToMigrate
	Claim            = claim
	Call             = call
)

const Waits = waits
