package migration

// What tests of turns need.
var (
	ConnectToMigrate = connectToMigrate
	TakeTurn         = takeTurn
	EndTurn          = endTurn
	Claim            = claim
	Call             = call
)

const Waits = waits
