package legacyv1

const (
	// TriggerCollection is what a source that has dialled a sink names in its first message, to make the sink ask. No such
	// collection exists, so the sink refuses it too.
	TriggerCollection = "$triggerCollection"

	// VersionHeader is the gRPC header in which a source tells which program it is.
	VersionHeader = "config.source.version"
)
