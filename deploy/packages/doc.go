// Package packages holds no code: the folder has what the packages of the programs are made of, and build makes them. Its tests install them.
package packages
