"""What cgroups use, from the kernel's files.

In the order of the data: tree (which cgroups there are) - files (what each of their files says).
"""
