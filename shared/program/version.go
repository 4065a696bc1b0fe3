package program

// Version is the product's, by semantic versioning.
const Version = "0.1.0"
