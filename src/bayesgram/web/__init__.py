"""The page: releases to type with, to look through, to explain and to plan. Reads releases and public text alone."""
