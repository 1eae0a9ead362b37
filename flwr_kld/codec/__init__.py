"""Everything that crosses a wire or touches a disk is read here, by one mechanism and strictly."""
