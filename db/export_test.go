package db

// MigrateFiles is Migrate with other migrations.
var MigrateFiles = migrate
