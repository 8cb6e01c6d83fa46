//! Declares a list of rules in one table: the code for programs and the message for people.

/// Declares an `enum` of rules. Each has a name in snake case and a message in which `{found}` and `{expected}` stand for a finding's
/// numbers.
#[macro_export]
macro_rules! rules {
    ($(#[$doc:meta])* $type:ident($found:ident, $expected:ident): $($variant:ident $name:literal $text:literal)+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $(#[doc = concat!("`", $name, "`: ", $text, ".")] $variant,)+
        }

        impl $type {
            /// Every rule, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// A stable code for programs, in snake case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The message, with `{found}` and `{expected}` in it if a finding has them.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The message of a finding, with the numbers filled in.
            #[must_use]
            pub fn sentence(self, $found: impl std::fmt::Display, $expected: impl std::fmt::Display) -> String {
                match self { $(Self::$variant => format!($text),)+ }
            }

            /// Whether the message mentions what was found.
            #[must_use]
            pub fn tells_found(self) -> bool {
                self.text().contains(concat!("{", stringify!($found), "}"))
            }

            /// Whether the message mentions what was expected.
            #[must_use]
            pub fn tells_expected(self) -> bool {
                self.text().contains(concat!("{", stringify!($expected), "}"))
            }
        }
    };
}
