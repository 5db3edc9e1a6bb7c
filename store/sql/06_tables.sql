-- What the tables for users and their columns mean. The migrations that made them have no words for
-- some, or older ones.

COMMENT ON TABLE mesh.kinds IS 'The kinds of resources that can be stored. Migrations maintain it.';
COMMENT ON COLUMN mesh.kinds.api_group IS 'The API group.';
COMMENT ON COLUMN mesh.kinds.kind IS 'The name of the kind, such as VirtualService.';
COMMENT ON COLUMN mesh.kinds.plural IS 'The plural, as in CRDs.';
COMMENT ON COLUMN mesh.kinds.short_names IS 'Short names that the command line takes.';
COMMENT ON COLUMN mesh.kinds.versions IS 'The API versions, the preferred one first.';
COMMENT ON COLUMN mesh.kinds.namespaced IS 'Whether resources of the kind have a namespace.';
COMMENT ON COLUMN mesh.kinds.type IS 'The type of the spec, in mesh.schema_fields.';
COMMENT ON COLUMN mesh.kinds.rules IS 'Tells the current rules from earlier ones.';

COMMENT ON TABLE mesh.schema_fields IS 'The fields of each type, in order. For a list or a map, value_type and what follows enum describe each item. Migrations maintain it.';
COMMENT ON COLUMN mesh.schema_fields.type IS 'The type of object that has the field.';
COMMENT ON COLUMN mesh.schema_fields.position IS 'The place of the field in its type.';
COMMENT ON COLUMN mesh.schema_fields.name IS 'The name of the field.';
COMMENT ON COLUMN mesh.schema_fields.names IS 'The name and its aliases.';
COMMENT ON COLUMN mesh.schema_fields.value_type IS 'What the value is: a scalar type, enum, duration or message.';
COMMENT ON COLUMN mesh.schema_fields.ref IS 'The type of a message.';
COMMENT ON COLUMN mesh.schema_fields.shape IS 'single, list or map.';
COMMENT ON COLUMN mesh.schema_fields.key_type IS 'The type of the keys of a map.';
COMMENT ON COLUMN mesh.schema_fields.required IS 'Whether the field must be set.';
COMMENT ON COLUMN mesh.schema_fields.min_items IS 'The least number of items.';
COMMENT ON COLUMN mesh.schema_fields.max_items IS 'The greatest number of items.';
COMMENT ON COLUMN mesh.schema_fields.enum IS 'The values of an enum.';
COMMENT ON COLUMN mesh.schema_fields.numbers IS 'The numbers of those values.';
COMMENT ON COLUMN mesh.schema_fields.min IS 'The least value of a number.';
COMMENT ON COLUMN mesh.schema_fields.max IS 'The greatest value of a number.';
COMMENT ON COLUMN mesh.schema_fields.min_length IS 'The least length of a string.';
COMMENT ON COLUMN mesh.schema_fields.max_length IS 'The greatest length of a string.';
COMMENT ON COLUMN mesh.schema_fields.pattern IS 'A regular expression that a string must match.';
COMMENT ON COLUMN mesh.schema_fields.min_duration IS 'The shortest duration.';
COMMENT ON COLUMN mesh.schema_fields.max_duration IS 'The longest duration.';
COMMENT ON COLUMN mesh.schema_fields.precision IS 'A duration must be a multiple of this.';
COMMENT ON COLUMN mesh.schema_fields.format IS 'The format of a string, in mesh.formats.';
COMMENT ON COLUMN mesh.schema_fields.key_format IS 'The format of the keys of a map.';

COMMENT ON TABLE mesh.formats IS 'The syntaxes of strings, which mesh.schema_fields names. Migrations maintain it.';
COMMENT ON COLUMN mesh.formats.name IS 'The name of the format.';
COMMENT ON COLUMN mesh.formats.pattern IS 'A regular expression that the string must match.';
COMMENT ON COLUMN mesh.formats.unlike IS 'A regular expression that the string must not match.';
COMMENT ON COLUMN mesh.formats.long IS 'A regular expression that strings of more than 63 characters must match.';
COMMENT ON COLUMN mesh.formats.max IS 'The greatest number of characters.';
COMMENT ON COLUMN mesh.formats.function IS 'A test that no regular expression can express.';
COMMENT ON COLUMN mesh.formats.other IS 'Another format that will do as well.';
COMMENT ON COLUMN mesh.formats.reason IS 'What is said of a string without the format.';
COMMENT ON COLUMN mesh.formats.hint IS 'What to do about it.';

COMMENT ON TABLE mesh.rules IS 'What must not be the case in an object of a type, beyond what mesh.schema_fields says of its fields. Migrations maintain it.';
COMMENT ON COLUMN mesh.rules.position IS 'The place of the rule among those of its type.';
COMMENT ON COLUMN mesh.rules.steps IS 'The lists in each, as fields and their shapes.';
COMMENT ON COLUMN mesh.rules.reason IS 'What is wrong with an object that breaks the rule.';
COMMENT ON COLUMN mesh.rules.hint IS 'What to do about it.';

COMMENT ON TABLE mesh.resources IS 'Each resource as it stands. INSERT, UPDATE, DELETE and COPY all work; a transaction becomes one revision.';
COMMENT ON COLUMN mesh.resources.api_group IS 'The API group. Filled in where the kind alone says it.';
COMMENT ON COLUMN mesh.resources.kind IS 'The kind, such as VirtualService.';
COMMENT ON COLUMN mesh.resources.namespace IS 'The namespace; empty for kinds without one.';
COMMENT ON COLUMN mesh.resources.name IS 'The name.';
COMMENT ON COLUMN mesh.resources.spec IS 'The spec, checked as it is written.';
COMMENT ON COLUMN mesh.resources.labels IS 'The labels, an object of strings.';
COMMENT ON COLUMN mesh.resources.annotations IS 'The annotations, an object of strings.';
COMMENT ON COLUMN mesh.resources.generation IS 'How many times the spec has changed. Set by triggers, like the columns after it.';
COMMENT ON COLUMN mesh.resources.created_at IS 'When the transaction that created the resource began.';
COMMENT ON COLUMN mesh.resources.updated_at IS 'When the transaction that last changed the resource began.';
COMMENT ON COLUMN mesh.resources.rules IS 'The rules that the resource last passed. If mesh.kinds has others, the resource has not been checked since they changed.';
COMMENT ON COLUMN mesh.resources.xid IS 'With updated_at, the transaction that last changed the resource. The views show its revision.';

COMMENT ON TABLE mesh.settings IS 'What is set, for the whole mesh or for a namespace. Delete a row to return to the default. mesh.known_settings lists what can be set.';
COMMENT ON COLUMN mesh.settings.namespace IS 'Empty for the whole mesh. In a namespace its own value counts first.';
COMMENT ON COLUMN mesh.settings.name IS 'The name of the setting.';
COMMENT ON COLUMN mesh.settings.value IS 'The value, as text.';
COMMENT ON COLUMN mesh.settings.author IS 'Who last wrote the row. Set by a trigger.';
COMMENT ON COLUMN mesh.settings.updated_at IS 'When the row was last written. Set by a trigger.';

COMMENT ON TABLE mesh.secrets IS 'Certificates and keys that gateways serve with, and the authorities that they trust. For those whom mesh.grant_secrets was called for.';
COMMENT ON COLUMN mesh.secrets.namespace IS 'The namespace of the secret.';
COMMENT ON COLUMN mesh.secrets.name IS 'The name, which credentialName gives.';
COMMENT ON COLUMN mesh.secrets.labels IS 'The labels, an object of strings.';
COMMENT ON COLUMN mesh.secrets.not_before IS 'When the certificates in the chain begin to be valid.';
COMMENT ON COLUMN mesh.secrets.author IS 'Who last wrote the row.';
COMMENT ON COLUMN mesh.secrets.created_at IS 'When the secret was created.';
COMMENT ON COLUMN mesh.secrets.updated_at IS 'When the secret was last changed.';

COMMENT ON TABLE mesh.tokens IS 'The bearer tokens. mcp-client token makes, lists and revokes them. Only a SHA-256 hash of each is kept, from which nobody can find the token.';
COMMENT ON COLUMN mesh.tokens.id IS 'The number of the token.';
COMMENT ON COLUMN mesh.tokens.name IS 'The name of the token.';
COMMENT ON COLUMN mesh.tokens.hash IS 'The SHA-256 hash of the token.';
COMMENT ON COLUMN mesh.tokens.created_by IS 'Who made it.';
COMMENT ON COLUMN mesh.tokens.created_at IS 'When.';
COMMENT ON COLUMN mesh.tokens.expires_at IS 'When it expires; NULL if it does not.';
COMMENT ON COLUMN mesh.tokens.revoked_by IS 'Who revoked it.';
COMMENT ON COLUMN mesh.tokens.revoked_at IS 'When.';

COMMENT ON TABLE mesh.readers IS 'What clients of mcp-server are shown. With no row in the table, all that they may read; otherwise what the rows of their identity name together, or nothing.';
COMMENT ON COLUMN mesh.readers.id IS 'The number of the row.';
COMMENT ON COLUMN mesh.readers.updated_at IS 'When the row was last written. Set by a trigger.';

COMMENT ON TABLE mesh.revocations IS 'Who has been revoked, and whose revocation was lifted. mesh.revoke_identity, mesh.revoke_machine, mesh.revoke_server and the functions that restore write it.';
COMMENT ON COLUMN mesh.revocations.id IS 'The number of the row.';
COMMENT ON COLUMN mesh.revocations.namespace IS 'The namespace of the identity; empty for a server.';
COMMENT ON COLUMN mesh.revocations.reason IS 'Why, as whoever revoked it said.';
COMMENT ON COLUMN mesh.revocations.revoked_by IS 'Who revoked it.';
COMMENT ON COLUMN mesh.revocations.revoked_at IS 'When.';
COMMENT ON COLUMN mesh.revocations.lifted_by IS 'Who lifted the revocation; NULL while it counts.';

COMMENT ON TABLE mesh.federated_trust IS 'Other meshes whose members are trusted here, each for its own trust domain. mesh.trust_federated writes it.';
COMMENT ON COLUMN mesh.federated_trust.trust_domain IS 'The trust domain of the other mesh.';
COMMENT ON COLUMN mesh.federated_trust.author IS 'Who last wrote the row.';
COMMENT ON COLUMN mesh.federated_trust.updated_at IS 'When the row was last written.';

COMMENT ON TABLE mesh.join_issuers IS 'Whose JSON web tokens machines may join with, and as whom. Of the rows that fit a token, the first by name counts.';
COMMENT ON COLUMN mesh.join_issuers.name IS 'The name of the row.';
COMMENT ON COLUMN mesh.join_issuers.jwks_uri IS 'Where the keys are fetched.';
COMMENT ON COLUMN mesh.join_issuers.service_account IS 'With namespace, who the bearer becomes.';
COMMENT ON COLUMN mesh.join_issuers.workload_group IS 'The WorkloadGroup that the machine joins; NULL for any.';
COMMENT ON COLUMN mesh.join_issuers.author IS 'Who last wrote the row.';
COMMENT ON COLUMN mesh.join_issuers.updated_at IS 'When the row was last written.';

COMMENT ON TABLE mesh.sinks IS 'Servers that take configuration by the first generation of MCP, and want to be dialled. One mcp-server dials each.';
COMMENT ON COLUMN mesh.sinks.enabled IS 'Whether to dial it.';
COMMENT ON COLUMN mesh.sinks.updated_at IS 'When the row was last written. Set by a trigger.';

COMMENT ON TABLE mesh.sealing_keys IS 'How mcp-server gets the keys that it encrypts secrets with, from a passphrase or a KMS. Nothing in it is secret; without it, encrypted secrets are lost.';
COMMENT ON COLUMN mesh.sealing_keys.id IS 'The id of the key.';
COMMENT ON COLUMN mesh.sealing_keys.author IS 'Who wrote the row.';
COMMENT ON COLUMN mesh.sealing_keys.created_at IS 'When.';

COMMENT ON TABLE mesh.certificates IS 'Each certificate that a machine or a server was given, and refusals; alike refusals of an hour share a row. The settings certificates_max_age and refusals_max say how long rows are kept.';
COMMENT ON COLUMN mesh.certificates.id IS 'The id of the row.';
COMMENT ON COLUMN mesh.certificates.recorded_at IS 'When the row was written here.';
COMMENT ON COLUMN mesh.certificates.serial IS 'The serial number of the certificate.';
COMMENT ON COLUMN mesh.certificates.not_after IS 'When the certificate expires.';
COMMENT ON COLUMN mesh.certificates.peer IS 'From which address it was asked for.';
COMMENT ON COLUMN mesh.certificates.took IS 'How long the issuer took.';
COMMENT ON COLUMN mesh.certificates.alike IS 'For the programs: a hash of what alike refusals have in common.';
COMMENT ON COLUMN mesh.certificates.strangers IS 'For the programs: whether a stranger can bring about such a refusal. These push out only each other.';

COMMENT ON TABLE mesh.schema_version IS 'The migrations that have been applied. mcp-server migrate status reads it.';
COMMENT ON COLUMN mesh.schema_version.id IS 'The number of the row.';
COMMENT ON COLUMN mesh.schema_version.version_id IS 'The number of the migration.';
COMMENT ON COLUMN mesh.schema_version.is_applied IS 'Whether it was applied, and not taken back.';
COMMENT ON COLUMN mesh.schema_version.tstamp IS 'When.';
